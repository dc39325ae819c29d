package stores

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
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
		f, size, err := openFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSignature, err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(patient(f, size), maxSignature+1))
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
		for _, entity := range more {
			for _, key := range entity.Subkeys {
				err = errors.Join(err, checkKey(key.PublicKey))
			}
			if err = errors.Join(err, checkKey(entity.PrimaryKey)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
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

// checkKey refuses keys whose signatures can be forged: NIST SP 800-131A.
func checkKey(key *packet.PublicKey) error {
	const minBits = 2048
	if key.PubKeyAlgo == packet.PubKeyAlgoDSA {
		return fmt.Errorf("key %s: DSA is not accepted", key.KeyIdString())
	}
	if rsa, ok := key.PublicKey.(*rsa.PublicKey); ok && rsa.N.BitLen() < minBits {
		return fmt.Errorf("key %s: RSA with %d bits, want %d", key.KeyIdString(), rsa.N.BitLen(), minBits)
	}
	return nil
}

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
	in, out := io.Pipe()
	v := &signatureVerifier{PipeWriter: out, result: make(chan error, 1)}
	go func() {
		err := verify(keys, in, signature)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrSignature, err)
		}
		v.result <- err
		_, _ = io.Copy(io.Discard, in) // the check may fail before it has read everything
	}()
	return v, nil
}

// verify checks a signature with SHA-2. If the clock of the node is behind, it checks what has expired at
// the earliest time that it can be.
func verify(keys openpgp.EntityList, signed io.Reader, signature []byte) error {
	binary, err := decodeSignature(signature)
	if err != nil {
		return err
	}
	config := &packet.Config{}
	if at := behind(signature); !at.IsZero() {
		config.Time = func() time.Time { return at }
	}
	hashes := []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}
	_, _, err = openpgp.VerifyDetachedSignatureAndHash(keys, signed, bytes.NewReader(binary), hashes, config)
	return err
}

// decodeSignature removes the armor of a signature, if it has one.
func decodeSignature(signature []byte) ([]byte, error) {
	if !armored(signature) {
		return signature, nil
	}
	block, err := armor.Decode(bytes.NewReader(signature))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(block.Body, maxSignature))
}

// behind returns the earliest time that it can be, if the clock of the node is before that: when the
// signature and this program were made. Else it returns 0. A node without a battery for its clock may
// start in 1970.
func behind(signature []byte) time.Time {
	earliest := built()
	binary, _ := decodeSignature(signature) // verify reports an error
	for packets := packet.NewReader(bytes.NewReader(binary)); ; {
		p, err := packets.Next()
		if err != nil { // verify reports it
			break
		}
		if s, ok := p.(*packet.Signature); ok && s.CreationTime.After(earliest) {
			earliest = s.CreationTime
		}
	}
	if time.Now().After(earliest) {
		return time.Time{}
	}
	return earliest
}

// built is the time of the commit that this program was built from, 0 if that is unknown.
func built() (at time.Time) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return at
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			at, _ = time.Parse(time.RFC3339, s.Value) // 0 if it is another form
		}
	}
	return at
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
