package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pinbox/pinbox/storage/layout"
)

// MaxSize is the maximum size of a signature in bytes.
const MaxSize = 64 << 10

// ReadBeside reads the detached signature next to a file; nil if there is none. read reads a file, of which it needs
// MaxSize bytes and one more; nil is for files of this user.
func ReadBeside(file string, read func(name string) ([]byte, error)) (signature []byte, err error) {
	if read == nil {
		read = func(name string) ([]byte, error) { return readLimited(name, MaxSize) }
	}
	text, err := read(file + layout.SignatureSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = CheckSize(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file+layout.SignatureSuffix, ErrInvalid, err)
	}
	return text, nil
}

// CheckSize refuses a signature of more than MaxSize bytes.
func CheckSize(signature []byte) error {
	if len(signature) > MaxSize {
		return fmt.Errorf("it has more than %d KiB", MaxSize>>10)
	}
	return nil
}

// Decode returns the bytes of a signature. That it can be decoded says nothing about who made it.
func Decode(signature []byte) ([]byte, error) {
	err := CheckSize(signature)
	if err == nil {
		signature, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(signature)))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return signature, nil
}

// Verify checks the signature of a text.
func (k Keys) Verify(text, signature []byte) error {
	if len(signature) == 0 {
		return ErrUnsigned
	}
	signature, err := Decode(signature)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(k, func(key crypto.PublicKey) bool { return verifies(key, text, signature) }) {
		return fmt.Errorf("%w: none of the keys has signed this", ErrInvalid)
	}
	return nil
}

// verifies takes Ed25519 in both of its forms: that of openssl, and Ed25519ph, which newer versions of cosign make.
func verifies(key crypto.PublicKey, text, signature []byte) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(text)
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		sum := sha512.Sum512(text)
		return ed25519.Verify(key, text, signature) ||
			ed25519.VerifyWithOptions(key, sum[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
	}
	return false
}
