package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrBlocked reports that no mirror has an image whose own registry is blocked in registries.conf.
var ErrBlocked = fault.New(fault.Registry, "no mirror has it, and its registry is blocked",
	"push it to a mirror; or change mirrorSourcePolicy, or the blocked registries in registries.conf")

// withRegistries makes sys stand for the host's registries.conf, as a drop-in and the insecure hosts change it.
func withRegistries(sys *imgtypes.SystemContext, dropin []byte, insecure []string) error {
	host, err := sysregistriesv2.TryUpdatingCache(nil)
	if err != nil {
		return fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	added, err := insecureAsOnHost(dropin)
	if err != nil {
		return err
	}
	config := *host // the library keeps its own
	config.Registries = slices.DeleteFunc(slices.Clone(host.Registries), func(r sysregistriesv2.Registry) bool {
		return slices.ContainsFunc(added, func(a sysregistriesv2.Registry) bool { return prefix(a) == prefix(r) })
	})
	config.Registries = withInsecure(append(config.Registries, added...), insecure)
	return loadRegistries(sys, &config)
}

// loadRegistries makes sys stand for a registries.conf. The library reads files only, and keeps what it read under
// their names: so they are temporary, and gone when this returns. Nothing that ends the program later leaves them.
// Aliases of short names are left out: images have full names here.
func loadRegistries(sys *imgtypes.SystemContext, config *sysregistriesv2.V2RegistriesConf) (err error) {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(config); err != nil {
		return err
	}
	dir, err := environment.TempDir("pinbox-registries-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sys.SystemRegistriesConfPath = filepath.Join(dir, "registries.conf")
	sys.SystemRegistriesConfDirPath = filepath.Join(dir, "none") // else the library would read the host's
	if err := os.WriteFile(sys.SystemRegistriesConfPath, b.Bytes(), 0o600); err != nil {
		return err
	}
	_, err = sysregistriesv2.TryUpdatingCache(sys)
	return err
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
