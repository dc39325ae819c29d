package registry

import (
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

// keep fills the cache. A disk that is full or read-only costs another request,
// and nothing else.
func (c Client) keep(d digest.Digest, content []byte) {
	if c.Cache == "" || c.ReadOnly || os.MkdirAll(c.Cache, 0o755) != nil {
		return
	}
	_, _ = atomicfile.Write(filepath.Join(c.Cache, d.Encoded()), content, 0o644)
}

// Forget empties the cache: once the images are there, nobody asks again.
func (c Client) Forget() {
	if c.Cache == "" || c.ReadOnly {
		return
	}
	entries, _ := os.ReadDir(c.Cache) // none, if it is not there
	for _, e := range entries {
		_ = os.Remove(filepath.Join(c.Cache, e.Name())) // a leftover harms nobody
	}
}
