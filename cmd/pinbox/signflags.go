package main

import (
	"bytes"
	"cmp"
	"errors"
	"os"

	"github.com/spf13/cobra"
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
			passphraseVariable+", or it is asked for on a terminal)")
	cli.Files(flags, "sign-key", "key", "pem")
	cli.Under("Signature", flags)
}

// signer reads the key; without one the signer signs nothing. If the key has a passphrase that is given nowhere, it
// is asked for, on a terminal.
func (f signFlags) signer(cmd *cobra.Command) (signature.Signer, error) {
	if f.key == "" {
		if f.passphrase != "" {
			return signature.Signer{}, cli.Usagef("--sign-passphrase-file goes with --sign-key")
		}
		return signature.Signer{}, nil
	}
	passphrase, given := []byte(os.Getenv(passphraseVariable)), os.Getenv(passphraseVariable) != ""
	if file := cmp.Or(f.passphrase, os.Getenv(passphraseFileVariable)); file != "" {
		var err error
		if passphrase, err = input.Read(file); err != nil {
			return signature.Signer{}, err
		}
		passphrase, given = bytes.TrimRight(passphrase, "\r\n"), true
	}
	s, err := signature.ReadSigner(f.key, passphrase)
	if given || !errors.Is(err, signature.ErrPassphrase) {
		return s, err
	}
	passphrase, asked, askErr := cli.Secret(cmd, "Passphrase of "+f.key)
	switch {
	case askErr != nil:
		return s, askErr
	case !asked:
		return s, err
	}
	return signature.ReadSigner(f.key, passphrase)
}
