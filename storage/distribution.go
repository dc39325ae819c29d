package storage

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
)

// distributionRoot is the folder of a registry's content: registry/storage/paths.go of
// github.com/distribution/distribution.
const distributionRoot = "docker/registry/v2/"

// Distribution is the storage of a registry of github.com/distribution/distribution, or a part of
// it.
type Distribution struct {
	// Tags has the digests of manifests, by "repository:tag" without a host.
	Tags   map[string]digest.Digest
	blobs  blobStore
	origin string
}

// ReadDistribution reads the tags of a registry's storage in a tree, which must stay open as long
// as images are read. Blobs that are not in the tree are read from earlier stores. origin is for
// messages.
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
	all := blobStores{treeBlobs{tree: t, name: blobFile, attached: attached}}
	for _, s := range earlier {
		all = append(all, s)
	}
	d.blobs = all
	return d, nil
}

// signatureTag is the tag that cosign gives the image with another image's signatures.
var signatureTag = regexp.MustCompile(`^sha256-([0-9a-f]{64})\.sig$`)

// Image returns the image with this manifest or index under a name.
func (d *Distribution) Image(name string, manifest digest.Digest) LocalImage {
	return LocalImage{Name: name, Digest: manifest, origin: d.origin, blobs: d.blobs}
}

func blobFile(d digest.Digest) string {
	hex := d.Encoded()
	return path.Join(distributionRoot, "blobs", d.Algorithm().String(), hex[:2], hex, "data")
}
