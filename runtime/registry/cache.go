package registry

import (
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// readCache reads a manifest from the cache. One that does not match its digest does not count.
func (c Client) readCache(d digest.Digest) ([]byte, bool) {
	if c.Cache == "" {
		return nil, false
	}
	content, err := os.ReadFile(filepath.Join(c.Cache, d.Encoded()))
	return content, err == nil && digest.FromBytes(content) == d
}

// addToCache adds a manifest to the cache. It may fail, as on a full disk: then the next pass makes
// another request.
func (c Client) addToCache(d digest.Digest, content []byte) {
	if c.Cache == "" || c.ReadOnly || os.MkdirAll(c.Cache, 0o755) != nil {
		return
	}
	_, _ = atomicfile.Write(filepath.Join(c.Cache, d.Encoded()), content, 0o644)
}

// Forget empties the cache: images that are on the node are not resolved again.
func (c Client) Forget() {
	if c.Cache == "" || c.ReadOnly {
		return
	}
	entries, _ := os.ReadDir(c.Cache) // none, if it does not exist
	for _, e := range entries {
		_ = os.Remove(filepath.Join(c.Cache, e.Name())) // a file that stays is used or overwritten
	}
}
