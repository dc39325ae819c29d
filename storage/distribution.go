package storage

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// distributionRoot is where a registry keeps its content: github.com/distribution/
// distribution, registry/storage/paths.go.
const distributionRoot = "docker/registry/v2/"

// Distribution is what a registry has stored in files, or a part of it.
type Distribution struct {
	pool *pool
	// Tags are the manifests, by "repository:tag" without a host.
	Tags map[string]digest.Digest
	// Blobs is how many there are.
	Blobs int
}

// ReadDistribution finds what a registry has stored in a tree, which must stay
// open as long as images are read. Earlier stores have what is not in it.
func ReadDistribution(t *Tree, earlier ...*ImageStore) (*Distribution, error) {
	d := &Distribution{Tags: map[string]digest.Digest{}, pool: storesPool(t.blobs(), earlier)}
	d.pool.signatures = func(manifest digest.Digest) ([][]byte, error) { return d.signatures(manifest, earlier) }
	for name := range t.files {
		below, ok := strings.CutPrefix(name, distributionRoot)
		if !ok {
			continue
		}
		if strings.HasPrefix(below, "blobs/") {
			d.Blobs++
			continue
		}
		repository, tag, ok := strings.Cut(strings.TrimPrefix(below, "repositories/"), "/_manifests/tags/")
		tag, current := strings.CutSuffix(tag, "/current/link")
		if !ok || !current {
			continue
		}
		content, err := t.ReadFile(name)
		if err != nil {
			return nil, err
		}
		linked := digest.Digest(content)
		if err := linked.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, ErrLocal, err)
		}
		d.Tags[repository+":"+tag] = linked
	}
	return d, nil
}

// signatures are in an image beside the signed one, with a tag that says so.
func (d *Distribution) signatures(manifest digest.Digest, earlier []*ImageStore) (all [][]byte, err error) {
	tag := ":sha256-" + manifest.Encoded() + ".sig"
	for _, name := range slices.Sorted(maps.Keys(d.Tags)) {
		if !strings.HasSuffix(name, tag) {
			continue
		}
		more, err := d.pool.attachments(d.Tags[name])
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	for _, s := range earlier {
		more, err := s.signatures(manifest)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// Image is one of those that are stored.
func (d *Distribution) Image(name string, top digest.Digest) Found {
	return Found{Name: name, Digest: top, pool: d.pool}
}

func (t *Tree) blobs() pool {
	has := func(d digest.Digest) bool { _, ok := t.files[dataFile(d)]; return ok }
	return pool{has: has, open: func(d digest.Digest) (io.ReadCloser, int64, error) {
		if !has(d) {
			return nil, 0, fmt.Errorf("%w: %s", ErrIncomplete, d)
		}
		return t.Open(dataFile(d))
	}}
}

func dataFile(d digest.Digest) string {
	hex := d.Encoded()
	return path.Join(distributionRoot, "blobs", d.Algorithm().String(), hex[:2], hex, "data")
}
