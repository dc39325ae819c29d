package storage

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
)

// distributionRoot is where a registry keeps its content: github.com/distribution/
// distribution, registry/storage/paths.go.
const distributionRoot = "docker/registry/v2/"

// Distribution is what a registry has stored in files, or a part of it.
type Distribution struct {
	// Tags are the manifests, by "repository:tag" without a host.
	Tags   map[string]digest.Digest
	blobs  blobStore
	origin string
}

// ReadDistribution finds what a registry has stored in a tree, which must stay
// open as long as images are read. Earlier stores have what is not in it. origin is
// for messages.
func ReadDistribution(t *Tree, origin string, earlier ...*ImageStore) (*Distribution, error) {
	d := &Distribution{Tags: map[string]digest.Digest{}, origin: origin}
	attached := map[digest.Digest][]digest.Digest{}
	for _, name := range t.Names() {
		below, ok := strings.CutPrefix(name, distributionRoot+"repositories/")
		repository, tag, tagged := strings.Cut(below, "/_manifests/tags/")
		tag, current := strings.CutSuffix(tag, "/current/link")
		if !ok || !tagged || !current {
			continue
		}
		content, err := t.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", origin, err)
		}
		linked := digest.Digest(content)
		if err := linked.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s: %w", origin, ErrLocal, name, err)
		}
		d.Tags[repository+":"+tag] = linked
		if m := signatureTag.FindStringSubmatch(tag); m != nil {
			signed := digest.NewDigestFromEncoded(digest.SHA256, m[1])
			attached[signed] = append(attached[signed], linked)
		}
	}
	all := blobStores{treeBlobs{tree: t, name: dataFile, attached: attached}}
	for _, s := range earlier {
		all = append(all, s)
	}
	d.blobs = all
	return d, nil
}

// signatureTag is what cosign calls the image of the signatures of another.
var signatureTag = regexp.MustCompile(`^sha256-([0-9a-f]{64})\.sig$`)

// Image is one of those that are stored.
func (d *Distribution) Image(name string, top digest.Digest) LocalImage {
	return LocalImage{Name: name, Digest: top, origin: d.origin, blobs: d.blobs}
}

func dataFile(d digest.Digest) string {
	hex := d.Encoded()
	return path.Join(distributionRoot, "blobs", d.Algorithm().String(), hex[:2], hex, "data")
}
