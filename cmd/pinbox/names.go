package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// names says how tables show the names of images: in at most 100 columns with the others, or in full.
type names struct{ full bool }

func (n *names) add(flags *pflag.FlagSet) {
	flags.BoolVar(&n.full, "no-trunc", false, "show names and digests of images in full, however wide tables get")
}

const (
	maxRepository = 36 // columns of a repository
	maxName       = 24 // columns of the name of a component, or of a repository's last part with a tag
	shortDigest   = 12 // digits, as podman shows
)

// pin is a pin as a table shows it.
func (n names) pin(pin string) string {
	repository, digest, found := strings.Cut(pin, "@")
	if n.full || !found {
		return pin
	}
	if over := len(repository) - maxRepository; over > 0 {
		repository = "…" + repository[over+1:]
	}
	return repository + "@" + n.digest(digest)
}

// digest is a digest of a pin, or the one of a pin, as a table shows it.
func (n names) digest(pin string) string {
	if n.full {
		return pin
	}
	_, digits, found := strings.Cut(pin[strings.Index(pin, "@")+1:], ":")
	if !found {
		return pin
	}
	return digits[:min(len(digits), shortDigest)]
}

// name is the name of an image as a table shows it.
func (n names) name(name string) string {
	if n.full || len(name) <= maxName {
		return name
	}
	return name[:maxName-3] + "…"
}
