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
	maxFile       = 28 // columns of the path of a file
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

// file is the path of a file as a table shows it: its end says more than its beginning.
func (n names) file(name string) string {
	characters := []rune(name)
	if over := len(characters) - maxFile; over > 0 && !n.full {
		return "…" + string(characters[over+1:])
	}
	return name
}
