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
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrBlocked says that no mirror gives an image whose own registry is not to be
// asked.
var ErrBlocked = errors.New("no mirror gives it, and its registry may not be asked")

// withRegistries adds a drop-in to what registries.conf says: that which the
// library reads without us, wherever that stands, and the drop-in behind it. The
// library reads files only, so both go to a folder, which the caller removes.
// Aliases of short names are left out: every image has its full name here.
func withRegistries(dropin []byte) (dir string, err error) {
	host, err := sysregistriesv2.TryUpdatingCache(nil)
	if err != nil {
		return "", fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(host); err != nil {
		return "", err
	}
	if dropin, err = insecureAsOnHost(dropin); err != nil {
		return "", err
	}
	if dir, err = environment.TempDir("pinbox-registries-"); err != nil {
		return "", err
	}
	err = errors.Join(
		os.Mkdir(registriesDir(dir), 0o700),
		os.WriteFile(registriesConf(dir), b.Bytes(), 0o600),
		os.WriteFile(filepath.Join(registriesDir(dir), "pinbox.conf"), dropin, 0o600))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// insecureAsOnHost lets registries be reached as the host says, which objects of a
// cluster cannot say.
func insecureAsOnHost(dropin []byte) ([]byte, error) {
	var ours struct {
		Registries []sysregistriesv2.Registry `toml:"registry"`
	}
	if err := toml.Unmarshal(dropin, &ours); err != nil {
		return nil, err
	}
	insecure := func(location string) bool {
		registry, err := sysregistriesv2.FindRegistry(nil, location)
		return err == nil && registry != nil && registry.Insecure
	}
	for i := range ours.Registries {
		r := &ours.Registries[i]
		r.Insecure = insecure(cmp.Or(r.Location, r.Prefix))
		for m := range r.Mirrors {
			r.Mirrors[m].Insecure = insecure(r.Mirrors[m].Location)
		}
	}
	var b bytes.Buffer
	err := toml.NewEncoder(&b).Encode(ours)
	return b.Bytes(), err
}

func registriesConf(dir string) string { return filepath.Join(dir, "registries.conf") }
func registriesDir(dir string) string  { return filepath.Join(dir, "registries.conf.d") }

// openTag reads an image from mirrors for tags, by the tag that it was asked for by.
// It gives nil if there is no such tag or mirror, or the tag is another image now.
func (c *Client) openTag(ctx context.Context, img pinset.Image) *imageSource {
	c.mu.Lock()
	tag := c.tags[img]
	c.mu.Unlock()
	if tag == "" || !c.tagMirrors(img.Repository) {
		return nil
	}
	src, err := c.openName(ctx, tag, img)
	if err != nil {
		return nil
	}
	if _, _, err := src.GetManifest(ctx, nil); err != nil {
		_ = src.Close() // nothing was written to it
		return nil
	}
	return src
}

// tagMirrors says whether a repository has mirrors for tags alone.
func (c *Client) tagMirrors(repository string) bool {
	registry, err := sysregistriesv2.FindRegistry(c.sys, repository)
	return err == nil && registry != nil && slices.ContainsFunc(registry.Mirrors, func(m sysregistriesv2.Endpoint) bool {
		return m.PullFromMirror == sysregistriesv2.MirrorByTagOnly
	})
}

// The library's errors for these have no exported types. The first names the files
// of the configuration, ours among them, which nobody would find.
var blockedText = regexp.MustCompile(`is blocked in one of \[.*\]`)

const unreachableText = "pinging container registry"

// blocked gives an error about a source that is not to be asked, nil for others.
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
