package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// cached reads a manifest out of the cache, unless it is not what its name says.
func (c Client) cached(d digest.Digest) ([]byte, bool) {
	if c.Cache == "" {
		return nil, false
	}
	content, err := os.ReadFile(filepath.Join(c.Cache, d.Encoded()))
	return content, err == nil && digest.FromBytes(content) == d
}

func (c Client) keep(d digest.Digest, content []byte) error {
	if c.Cache == "" || c.ReadOnly {
		return nil
	}
	if err := os.MkdirAll(c.Cache, 0o755); err != nil {
		return err
	}
	_, err := atomicfile.Write(filepath.Join(c.Cache, d.Encoded()), content, 0o644)
	return err
}

// Forget empties the cache: once the images are there, nobody asks again.
func (c Client) Forget() error {
	if c.Cache == "" || c.ReadOnly {
		return nil
	}
	entries, err := os.ReadDir(c.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, os.Remove(filepath.Join(c.Cache, e.Name())))
	}
	return errors.Join(errs...)
}
