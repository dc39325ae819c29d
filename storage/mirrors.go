package storage

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrBlocked reports that no mirror has an image whose own registry is blocked in registries.conf.
var ErrBlocked = fault.New(fault.Registry, "no mirror has it, and its registry is blocked",
	"push it to a mirror; or change mirrorSourcePolicy, or the blocked registries in registries.conf")

// withRegistries writes the host's registries.conf, as a drop-in and the insecure hosts change it,
// to a temporary folder. The caller removes the folder.
func withRegistries(dropin []byte, insecure []string) (dir string, err error) {
	host, err := sysregistriesv2.TryUpdatingCache(nil)
	if err != nil {
		return "", fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	added, err := insecureAsOnHost(dropin)
	if err != nil {
		return "", err
	}
	config := *host // the library keeps its own
	config.Registries = slices.DeleteFunc(slices.Clone(host.Registries), func(r sysregistriesv2.Registry) bool {
		return slices.ContainsFunc(added, func(a sysregistriesv2.Registry) bool { return prefix(a) == prefix(r) })
	})
	config.Registries = withInsecure(append(config.Registries, added...), insecure)
	return writeRegistries(&config)
}

// insecureAsOnHost returns the registries of a drop-in, with the field `insecure` as in the host's
// configuration: the objects of a cluster that the drop-in is made from have no such field.
func insecureAsOnHost(dropin []byte) ([]sysregistriesv2.Registry, error) {
	var config struct {
		Registries []sysregistriesv2.Registry `toml:"registry"`
	}
	if err := toml.Unmarshal(dropin, &config); err != nil {
		return nil, err
	}
	insecure := func(location string) bool {
		registry, err := sysregistriesv2.FindRegistry(nil, location)
		return err == nil && registry != nil && registry.Insecure
	}
	for i := range config.Registries {
		r := &config.Registries[i]
		r.Insecure = insecure(cmp.Or(r.Location, r.Prefix))
		for m := range r.Mirrors {
			r.Mirrors[m].Insecure = insecure(r.Mirrors[m].Location)
		}
	}
	return config.Registries, nil
}

func registriesConf(dir string) string { return filepath.Join(dir, "registries.conf") }
func registriesDir(dir string) string  { return filepath.Join(dir, "registries.conf.d") }
