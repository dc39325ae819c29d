package storage

import (
	"crypto/fips140"
	"fmt"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrFIPS means that an OpenPGP signature or key cannot be read.
var ErrFIPS = fault.New(fault.Input, "OpenPGP needs algorithms that are not in Go's FIPS 140-3 module, and "+
	"GODEBUG=fips140=only forbids them", "have the images signed with sigstore, or leave out fips140=only")

// OpenPGP calls what reads OpenPGP keys or signatures. With fips140=only, Go panics where the library computes a
// fingerprint, by SHA-1; that is an ErrFIPS then.
func OpenPGP(do func() error) (err error) {
	if fips140.Enforced() {
		defer func() {
			if reason := recover(); reason != nil {
				err = fmt.Errorf("%w: %v", ErrFIPS, reason)
			}
		}()
	}
	return do()
}
