package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/pkg/compression"
)

// dockerManifest is the member of an archive of `docker save` that lists its images.
const dockerManifest = "manifest.json"

// dockerArchive has the blobs of an archive of `docker save`: layers without compression, and
// manifests that pinbox makes, since the format has none. docker/internal/tarfile in
// containers/image makes the same blobs, but reads the complete file for each image.
type dockerArchive struct {
	tree      *Tree
	manifests map[digest.Digest][]byte
	configs   map[digest.Digest]string // members
	layers    map[digest.Digest]dockerLayer
}

type dockerLayer struct {
	member string
	size   int64 // without compression, in bytes
}

// dockerItem is an image in manifest.json; its configuration and layers are members.
type dockerItem struct {
	Config   string
	RepoTags []string
	Layers   []string

	config  manifest.Schema2Descriptor
	diffIDs []digest.Digest
}

// dockerImages lists the images of an archive of `docker save`.
func dockerImages(ctx context.Context, tree *Tree, origin string) (all []LocalImage, err error) {
	content, err := tree.ReadFile(dockerManifest)
	if err != nil {
		return nil, err
	}
	var items []dockerItem
	if err := json.Unmarshal(content, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", dockerManifest, err)
	}
	a := dockerArchive{tree, map[digest.Digest][]byte{}, map[digest.Digest]string{}, map[digest.Digest]dockerLayer{}}
	for i := range items {
		if err := a.read(ctx, &items[i]); err != nil {
			return nil, fmt.Errorf("image %d in %s: %w", i, dockerManifest, err)
		}
	}
	for i, item := range items {
		d, err := a.makeManifest(item)
		if err != nil {
			return nil, fmt.Errorf("image %d in %s: %w", i, dockerManifest, err)
		}
		found := LocalImage{Digest: d, blobs: a, selfContained: true, origin: origin}
		if len(item.RepoTags) == 0 {
			all = append(all, found)
		}
		for _, tag := range item.RepoTags {
			if found.Name, err = dockerName(tag); err != nil {
				return nil, fmt.Errorf("image %d in %s: %w", i, dockerManifest, err)
			}
			all = append(all, found)
		}
	}
	return all, nil
}

// dockerName returns the full name of a tag: docker.io/library/busybox:1 for busybox:1.
func dockerName(tag string) (string, error) {
	named, err := reference.ParseNormalizedNamed(tag)
	if err != nil {
		return "", fmt.Errorf("tag %q: %w", tag, err)
	}
	if reference.IsNameOnly(named) {
		return "", fmt.Errorf("name %q has no tag", tag)
	}
	return named.String(), nil
}

// read reads an image's configuration and finds its layers. If an archive has a layer several
// times, only one of the members must be a file; the others may be links.
func (a dockerArchive) read(ctx context.Context, item *dockerItem) error {
	member := path.Clean(item.Config)
	content, err := a.tree.ReadFile(member)
	if err != nil {
		return err
	}
	var config manifest.Schema2Image
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	if config.RootFS == nil || len(config.RootFS.DiffIDs) != len(item.Layers) {
		return fmt.Errorf("%s does not have the %d layers of %s", member, len(item.Layers), dockerManifest)
	}
	item.diffIDs = config.RootFS.DiffIDs
	item.config = manifest.Schema2Descriptor{
		MediaType: manifest.DockerV2Schema2ConfigMediaType, Size: int64(len(content)), Digest: digest.FromBytes(content),
	}
	a.configs[item.config.Digest] = member
	for i, diffID := range item.diffIDs {
		layer := dockerLayer{member: path.Clean(item.Layers[i])}
		if _, known := a.layers[diffID]; known || !a.tree.Has(layer.member) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if layer.size, err = a.unpackedSize(layer.member); err != nil {
			return fmt.Errorf("%s: %w", layer.member, err)
		}
		a.layers[diffID] = layer
	}
	return nil
}

// makeManifest makes the manifest of an image, byte for byte as the library does.
func (a dockerArchive) makeManifest(item dockerItem) (digest.Digest, error) {
	layers := []manifest.Schema2Descriptor{}
	for _, diffID := range item.diffIDs {
		layer, ok := a.layers[diffID]
		if !ok {
			return "", fmt.Errorf("layer %s is missing", diffID)
		}
		layers = append(layers, manifest.Schema2Descriptor{
			MediaType: manifest.DockerV2Schema2LayerMediaType, Size: layer.size, Digest: diffID,
		})
	}
	content, err := json.Marshal(manifest.Schema2FromComponents(item.config, layers))
	d := digest.FromBytes(content)
	a.manifests[d] = content
	return d, err
}

// unpackedSize returns the size of a member without compression, in bytes.
func (a dockerArchive) unpackedSize(member string) (int64, error) {
	r, size, err := a.tree.Open(member)
	if err != nil {
		return 0, err
	}
	stream, compressed, err := compression.AutoDecompress(r)
	if err != nil {
		return 0, errors.Join(err, r.Close())
	}
	if compressed {
		size, err = io.Copy(io.Discard, struct{ io.Reader }{stream}) // hides WriteTo, which fails at the end in pgzip
	}
	return size, errors.Join(err, stream.Close(), r.Close())
}

func (a dockerArchive) has(d digest.Digest) bool {
	_, made := a.manifests[d]
	_, config := a.configs[d]
	_, layer := a.layers[d]
	return made || config || layer
}

func (a dockerArchive) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if content, ok := a.manifests[d]; ok {
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	}
	if member, ok := a.configs[d]; ok {
		return a.tree.Open(member)
	}
	layer, ok := a.layers[d]
	if !ok {
		return nil, 0, missing(d)
	}
	r, _, err := a.tree.Open(layer.member)
	if err != nil {
		return nil, 0, err
	}
	stream, _, err := compression.AutoDecompress(r)
	if err != nil {
		return nil, 0, errors.Join(err, r.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{stream, closers{stream, r}}, layer.size, nil
}

func (a dockerArchive) layer(d digest.Digest) (io.ReadCloser, error) { return nil, missing(d) }

func (a dockerArchive) signatures(digest.Digest) ([][]byte, error) { return nil, nil }
