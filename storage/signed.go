package storage

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/signature"
)

// ErrSignature says that a signature does not vouch for what it should.
var ErrSignature = errors.New("signature does not hold")

// VerifySigned finds out whether one of these OpenPGP keys, armored or not, has
// signed a digest: a simple signature, containers/image docs/atomic-signature.md.
// That it names another repository is fine: releases are mirrored.
func VerifySigned(sig []byte, keys [][]byte, want digest.Digest) error {
	errs := []error{fmt.Errorf("%s: %w", want, ErrSignature)}
	for _, key := range keys {
		mechanism, _, err := signature.NewEphemeralGPGSigningMechanism(key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		content, _, err := mechanism.Verify(sig)
		if closed := mechanism.Close(); err == nil {
			err = closed
		}
		if err == nil {
			err = signedDigest(content, want)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func signedDigest(content []byte, want digest.Digest) error {
	var claim struct {
		Critical struct {
			Type  string
			Image struct {
				Digest digest.Digest `json:"docker-manifest-digest"`
			}
		}
	}
	if err := json.Unmarshal(content, &claim); err != nil {
		return err
	}
	if claim.Critical.Type != "atomic container signature" || claim.Critical.Image.Digest != want {
		return fmt.Errorf("it is an %q of %s", claim.Critical.Type, claim.Critical.Image.Digest)
	}
	return nil
}
