package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrBlocked reports that no mirror has an image whose own registry is blocked in registries.conf.
var ErrBlocked = fault.New(fault.Registry, "no mirror has it, and its registry is blocked",
	"push it to a mirror; or change mirrorSourcePolicy, or the blocked registries in registries.conf")

// withRegistries writes the host's registries.conf, as a drop-in and the insecure hosts change it,
// to a temporary folder, since the library reads files only. The caller removes the folder. Aliases
// of short names are left out: images have full names here.
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
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(config); err != nil {
		return "", err
	}
	if dir, err = environment.TempDir("pinbox-registries-"); err != nil {
		return "", err
	}
	err = errors.Join(
		os.Mkdir(registriesDir(dir), 0o700), // empty: without it, the library would read the host's
		os.WriteFile(registriesConf(dir), b.Bytes(), 0o600))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
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

// openTag opens an image by the tag that it was requested by, for mirrors that serve only tags. It
// returns nil if it has no tag or no such mirror, or if the tag names another image now.
func (s *sources) openTag(ctx context.Context, img pinset.Image) *imageSource {
	s.mu.Lock()
	tag := s.tags[img]
	s.mu.Unlock()
	if tag == "" || !s.tagMirrors(img.Repository) {
		return nil
	}
	src, err := s.openName(ctx, tag, img)
	if err != nil {
		return nil
	}
	if _, _, err := src.GetManifest(ctx, nil); err != nil {
		_ = src.Close() // nothing was written to it
		return nil
	}
	s.keepAlone(img, src.remote)
	return src
}

// tagMirrors reports whether a repository has mirrors that serve only tags.
func (s *sources) tagMirrors(repository string) bool {
	registry, err := sysregistriesv2.FindRegistry(s.sys, repository)
	return err == nil && registry != nil && slices.ContainsFunc(registry.Mirrors, func(m sysregistriesv2.Endpoint) bool {
		return m.PullFromMirror == sysregistriesv2.MirrorByTagOnly
	})
}

// The library's errors for these have no exported types. The first text names the files of the
// configuration, among them the temporary one of withRegistries, so blocked removes the names.
var blockedText = regexp.MustCompile(`is blocked in one of \[.*\]`)

const unreachableText = "pinging container registry"

// blocked classifies errors about a blocked registry; it returns nil for other errors.
func blocked(err error) error {
	text := blockedText.ReplaceAllString(err.Error(), "is blocked")
	switch {
	case text == err.Error():
		return nil
	case strings.Contains(text, unreachableText):
		return unusable(errors.New(text))
	}
	return fmt.Errorf("%w: %s", ErrBlocked, text)
}
