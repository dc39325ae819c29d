package storage

import (
	"fmt"
	"strings"

	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// CompleteName reads a name of an image that need not be full, as nginx:1.27. The registry of a short name is the
// default registry or, if that is "", what registries.conf(5) says: an alias, or the only registry of
// unqualified-search-registries. by says which of them, and is "" for a full name. The error is pinset.ErrShortName if
// none does, and another one if registries.conf cannot be read. It makes no request.
func CompleteName(name, defaultRegistry string) (ref pinset.Reference, by string, err error) {
	ref, err = pinset.ParseReference(name)
	full, short, bad := pinset.Expand(name)
	switch {
	case err == nil || bad != nil:
		return ref, "", err
	case defaultRegistry != "" && !short: // docker.io/nginx
		return full, "the default registry " + defaultRegistry, nil
	case defaultRegistry != "":
		ref, _, err = pinset.Expand(defaultRegistry + "/" + name)
		return ref, "the default registry " + defaultRegistry, err
	case !short:
		return ref, "", err
	}
	completed, by, unreadable := completeByConfig(name)
	if unreadable != nil {
		return ref, "", fault.With(fmt.Errorf("short name %q: %w", name, unreadable), fault.Input,
			"correct registries.conf, which completes short names; or name the registry with --default-registry")
	}
	if completed == "" {
		return ref, "", err
	}
	ref, _, err = pinset.Expand(completed)
	return ref, by, err
}

// CheckDefaultRegistry returns an error unless a text can stand before short names.
func CheckDefaultRegistry(text string) error {
	if _, short, err := pinset.Expand(text + "/a"); text != "" && (err != nil || short) {
		return fmt.Errorf("%q is no registry, as docker.io or registry.example.com:5000", text)
	}
	return nil
}

// completeByConfig completes a short name by registries.conf; "" if that has nothing for it, or several registries.
func completeByConfig(name string) (completed, by string, err error) {
	if _, err := environment.Prepare(); err != nil { // its warnings are those of NewClient
		return "", "", err
	}
	parsed, err := reference.Parse(name)
	if err != nil {
		return "", "", err
	}
	repository, rest := name, ""
	if named, ok := parsed.(reference.Named); ok {
		repository = named.Name()
		rest = strings.TrimPrefix(name, repository) // the tag and the digest
	}
	sys := &imgtypes.SystemContext{}
	alias, origin, err := sysregistriesv2.ResolveShortNameAlias(sys, repository)
	if err != nil {
		return "", "", err
	}
	if alias != nil {
		return alias.Name() + rest, "an alias in " + origin, nil
	}
	registries, origin, err := sysregistriesv2.UnqualifiedSearchRegistriesWithOrigin(sys)
	if err != nil || len(registries) != 1 {
		return "", "", err
	}
	return registries[0] + "/" + name, "unqualified-search-registries in " + origin, nil
}
