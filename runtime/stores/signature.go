package stores

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/pinbox/pinbox/storage/layout"
)

// Why a signature does not permit an attach.
var (
	ErrUnsigned  = errors.New("the store has no signature, and this node requires one")
	ErrSignature = errors.New("the signature of the store is not valid")
)

// maxSignature is the maximum size of a signature in bytes: a hundred signatures by RSA keys of 4096
// bits.
const maxSignature = 64 << 10

// readSignature reads the detached signature of a file, which gpg(1) --detach-sign writes next to
// it, with or without --armor. It is nil if there is none.
func readSignature(file string) ([]byte, error) {
	for _, suffix := range layout.SignatureSuffixes() {
		name := file + suffix
		f, _, err := openFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSignature, err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxSignature+1))
		if err == nil {
			err = checkSize(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, ErrSignature, err)
		}
		return text, nil
	}
	return nil, nil
}

func checkSize(signature []byte) error {
	if len(signature) > maxSignature {
		return fmt.Errorf("it has more than %d KiB", maxSignature>>10)
	}
	return nil
}

// readKeys reads the OpenPGP keys of all files in a folder, armored or not. A folder that is
// missing has none.
func readKeys(dir string) (keys openpgp.EntityList, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		read := openpgp.ReadKeyRing
		if armored(text) {
			read = openpgp.ReadArmoredKeyRing
		}
		more, err := read(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(more) == 0 { // an empty file; without an error the node would need no signatures
			return nil, fmt.Errorf("%s: no OpenPGP key", name)
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// requiresSignatures reports whether the folder has keys, or cannot be read.
func requiresSignatures(dir string) bool {
	entries, err := os.ReadDir(dir)
	return len(entries) > 0 || ignoreNotExist(err) != nil
}

func armored(text []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN ")) }

// signatureVerifier checks the signature of what is written to it.
type signatureVerifier struct {
	*io.PipeWriter
	result chan error
}

// newSignatureVerifier makes a verifier with the keys of the node. It is nil if there are none.
func newSignatureVerifier(keys openpgp.EntityList, signature []byte) (*signatureVerifier, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if len(signature) == 0 {
		return nil, ErrUnsigned
	}
	check := openpgp.CheckDetachedSignature
	if armored(signature) {
		check = openpgp.CheckArmoredDetachedSignature
	}
	in, out := io.Pipe()
	v := &signatureVerifier{PipeWriter: out, result: make(chan error, 1)}
	go func() {
		_, err := check(keys, in, bytes.NewReader(signature), &packet.Config{})
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrSignature, err)
		}
		v.result <- err
		_, _ = io.Copy(io.Discard, in) // the check may fail before it has read everything
	}()
	return v, nil
}

// stop ends the check early.
func (v *signatureVerifier) stop() {
	if v != nil {
		_ = v.CloseWithError(io.ErrUnexpectedEOF)
	}
}

// finish returns the result of the check, once all was written.
func (v *signatureVerifier) finish() error {
	if v == nil {
		return nil
	}
	_ = v.Close() // PipeWriter.Close always returns nil
	return <-v.result
}
