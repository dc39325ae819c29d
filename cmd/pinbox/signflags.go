package main

import (
	"bytes"
	"cmp"
	"os"

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/signature"
)

// passphraseVariable is the environment variable with the passphrase of the key, passphraseFileVariable the one with
// the default of --sign-passphrase-file.
const (
	passphraseVariable     = "PINBOX_SIGN_PASSPHRASE"
	passphraseFileVariable = passphraseVariable + "_FILE"
)

// signFlags are the flags for signing of build, delta and medium.
type signFlags struct{ key, passphrase string }

func (f *signFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "sign-key", "",
		"`FILE` of a secret key in PEM, to sign the sums and the store with")
	flags.StringVar(&f.passphrase, "sign-passphrase-file", "",
		"`FILE` with the passphrase of that key (default: "+passphraseFileVariable+", or the value of "+
			passphraseVariable+")")
	cli.Files(flags, "sign-key", "key", "pem")
	cli.Under("Signature", flags)
}

// signer reads the key; without one the signer signs nothing.
func (f signFlags) signer() (signature.Signer, error) {
	if f.key == "" {
		if f.passphrase != "" {
			return signature.Signer{}, cli.Usagef("--sign-passphrase-file goes with --sign-key")
		}
		return signature.Signer{}, nil
	}
	passphrase := []byte(os.Getenv(passphraseVariable))
	if file := cmp.Or(f.passphrase, os.Getenv(passphraseFileVariable)); file != "" {
		var err error
		if passphrase, err = input.Read(file); err != nil {
			return signature.Signer{}, err
		}
		passphrase = bytes.TrimRight(passphrase, "\r\n")
	}
	return signature.ReadSigner(f.key, passphrase)
}
