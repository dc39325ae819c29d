package main

import (
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage"
)

// accessFlags are the flags of every command that makes requests to registries.
type accessFlags struct {
	access     storage.Access
	pullSecret string
	insecure   []string
}

// add adds the flags. more is the end of the text of --insecure-registry.
func (f *accessFlags) add(flags *pflag.FlagSet, more string) {
	flags.StringVar(&f.access.AuthFile, "authfile", "",
		"`FILE` of registry credentials (default: REGISTRY_AUTH_FILE, then podman's and docker's files)")
	flags.StringVar(&f.pullSecret, "pull-secret", "", "`FILE` of registry credentials as an OpenShift pull secret")
	flags.StringVar(&f.access.CertDir, "cert-dir", "",
		"`DIR` of certificates and keys for registries (default: /etc/containers/certs.d)")
	flags.StringArrayVar(&f.insecure, "insecure-registry", nil,
		"`HOST[:PORT]` of a registry or a mirror that may serve plain HTTP, or have an untrusted certificate"+more)
	flags.DurationVar(&f.access.StallTimeout, "stall", storage.DefaultStallTimeout,
		"`TIME` without progress after which a request to a registry is repeated")
}

// complete checks the flags.
func (f *accessFlags) complete() error {
	if f.pullSecret != "" {
		if f.access.AuthFile != "" {
			return cli.Usagef("--authfile and --pull-secret are the same thing: give one")
		}
		f.access.AuthFile = f.pullSecret
	}
	if f.access.StallTimeout <= 0 {
		return cli.Usagef("--stall %s: must be greater than 0", f.access.StallTimeout)
	}
	for _, host := range f.insecure {
		if err := storage.CheckHost(host); err != nil {
			return cli.Usagef("--insecure-registry: %w", err)
		}
	}
	return nil
}
