package storage

import (
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/signature"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrSignature reports that no key has signed a digest.
var ErrSignature = fault.New(fault.Damaged, "no valid signature",
	"check that the key is the publisher's, and that the signature is for this digest")

// ErrKey reports that a key cannot be read.
var ErrKey = fault.New(fault.Input, "not an OpenPGP key",
	"name files of OpenPGP public keys, as `gpg --export` writes them")

// CheckKey checks that key is an OpenPGP public key, armored or not. The error is ErrKey.
func CheckKey(key []byte) error {
	return OpenPGP(func() error {
		mechanism, ids, err := signature.NewEphemeralGPGSigningMechanism(key)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrKey, err)
		}
		defer mechanism.Close()
		if len(ids) == 0 {
			return ErrKey
		}
		return nil
	})
}

// VerifySigned checks that one of the OpenPGP keys, armored or not, has signed a digest. sig has
// the format of docs/atomic-signature.md in containers/image. The repository in it is not compared,
// since releases are mirrored. The error is ErrSignature.
func VerifySigned(sig []byte, keys [][]byte, want digest.Digest) error {
	errs := []error{fmt.Errorf("%s: %w", want, ErrSignature)}
	for _, key := range keys {
		err := OpenPGP(func() error { return verifySigned(sig, key, want) })
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func verifySigned(sig, key []byte, want digest.Digest) error {
	mechanism, _, err := signature.NewEphemeralGPGSigningMechanism(key)
	if err != nil {
		return err
	}
	content, _, err := mechanism.Verify(sig)
	if closed := mechanism.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = signedDigest(content, want)
	}
	return err
}

func signedDigest(content []byte, want digest.Digest) error {
	c := Claim{Form: openPGPForm}
	err := c.read(content)
	if err == nil {
		err = c.OfOpenPGP()
	}
	if err == nil && c.Digest != want {
		err = fmt.Errorf("it is for %s", c.Digest)
	}
	return err
}
