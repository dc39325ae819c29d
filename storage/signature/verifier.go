package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"aead.dev/minisign"

	"github.com/pinbox/pinbox/storage/layout"
)

// MaxSize is the maximum size of a signature in bytes: a hundred signatures by RSA keys of 4096 bits.
const MaxSize = 64 << 10

// ReadBeside reads the detached signature next to a file; nil if there is none. If there are several, it
// prefers one that one of the keys can have made. read reads a file, of which it needs MaxSize bytes and one
// more; nil is for files of this user.
func (k Keys) ReadBeside(file string, read func(name string) ([]byte, error)) (signature []byte, err error) {
	if read == nil {
		read = func(name string) ([]byte, error) { return readLimited(name, MaxSize) }
	}
	for _, suffix := range layout.SignatureSuffixes() {
		text, err := read(file + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = CheckSize(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", file+suffix, ErrInvalid, err)
		}
		if signature == nil || k.Examine(text) == nil {
			signature = text
		}
	}
	return signature, nil
}

// CheckSize refuses a signature of more than MaxSize bytes.
func CheckSize(signature []byte) error {
	if len(signature) > MaxSize {
		return fmt.Errorf("it has more than %d KiB", MaxSize>>10)
	}
	return nil
}

// check reads what was signed.
type check func(signed io.Reader) error

// Examine returns an error if none of the keys can have made a signature, whatever was signed.
func (k Keys) Examine(signature []byte) error {
	_, err := k.check(signature)
	return err
}

// Verify checks the signature of what it reads.
func (k Keys) Verify(signed io.Reader, signature []byte) error {
	check, err := k.check(signature)
	if err == nil {
		err = check(signed)
	}
	return err
}

// Verifier checks the signature of what is written to it.
type Verifier struct {
	*io.PipeWriter
	result chan error
}

// Verifier makes a Verifier. The caller calls Stop in any case.
func (k Keys) Verifier(signature []byte) (*Verifier, error) {
	check, err := k.check(signature)
	if err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	v := &Verifier{PipeWriter: out, result: make(chan error, 1)}
	go func() {
		v.result <- check(in)
		_, _ = io.Copy(io.Discard, in) // the check may fail before it has read everything
	}()
	return v, nil
}

// Stop ends the check early. It does nothing for nil.
func (v *Verifier) Stop() {
	if v != nil {
		_ = v.CloseWithError(io.ErrUnexpectedEOF)
	}
}

// Finish returns the result of the check, once all was written; for nil it returns nil.
func (v *Verifier) Finish() error {
	if v == nil {
		return nil
	}
	_ = v.Close() // PipeWriter.Close always returns nil
	return <-v.result
}

func (k Keys) check(signature []byte) (check, error) {
	if err := CheckSize(signature); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	form := formOf(signature)
	switch {
	case len(signature) == 0:
		return nil, ErrUnsigned
	case form == formMinisign:
		return k.checkMinisign(signature)
	case form == formArmor:
		binary, err := dearmor(signature)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return k.checkOpenPGP(binary)
	case isPacket(signature):
		return k.checkOpenPGP(signature)
	}
	return k.checkCosign(signature)
}

func (k Keys) checkMinisign(text []byte) (check, error) {
	var s minisign.Signature
	if err := s.UnmarshalText(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.Algorithm != minisign.HashEdDSA {
		return nil, fmt.Errorf("%w: it is not prehashed; make it with minisign 0.10 or newer, or with -H", ErrInvalid)
	}
	i := slices.IndexFunc(k.minisign, func(key minisign.PublicKey) bool { return key.ID() == s.KeyID })
	if i < 0 {
		return nil, ErrOtherKey
	}
	return func(signed io.Reader) error {
		message := minisign.NewReader(signed)
		if _, err := io.Copy(io.Discard, message); err != nil {
			return err
		}
		if !message.Verify(k.minisign[i], text) {
			return ErrInvalid
		}
		return nil
	}, nil
}

func (k Keys) checkCosign(text []byte) (check, error) {
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		return nil, fmt.Errorf("%w: it is none of OpenPGP, minisign or cosign", ErrInvalid)
	}
	if len(k.cosign) == 0 {
		return nil, ErrOtherKey
	}
	return func(signed io.Reader) error {
		h := sha256.New()
		if _, err := io.Copy(h, signed); err != nil {
			return err
		}
		sum := h.Sum(nil)
		if !slices.ContainsFunc(k.cosign, func(key *ecdsa.PublicKey) bool {
			return ecdsa.VerifyASN1(key, sum, signature)
		}) {
			return ErrInvalid
		}
		return nil
	}, nil
}
