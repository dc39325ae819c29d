package look

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Extracted is an image that was written.
type Extracted struct {
	Path string `json:"path"`
	Pin  string `json:"pin"`
	// Name in the layout.
	Name string `json:"name"`
	// ID of the image, which is that in the store.
	ID string `json:"id"`
	// Manifest is the digest of the manifest, whose layers are not compressed: it is not that of the pin.
	Manifest digest.Digest `json:"manifest"`
	Layers   int           `json:"layers"`
}

// Extract writes the image that a text stands for as an OCI image layout to a new folder. Each layer is the tar stream
// with its DiffID, and the configuration is that in the store.
func (im *Images) Extract(ctx context.Context, text, dir string, hooks progress.Hooks) (e Extracted, err error) {
	img, err := Find(im.Images, text)
	if err != nil {
		return e, err
	}
	layers, config, err := im.layers(img)
	if err != nil {
		return e, err
	}
	stage, err := artifact.OpenStage(dir)
	if errors.Is(err, artifact.ErrNotEmpty) {
		err = fault.With(err, fault.Usage, "name another folder with --oci, or remove this one")
	}
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()
	w := writer{stage}
	if err := os.MkdirAll(stage.Path(blobsDir), 0o755); err != nil {
		return e, err
	}
	manifest := imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest,
		Layers: []imgspecv1.Descriptor{},
	}
	if err := w.layers(ctx, layers, &manifest, hooks); err != nil {
		return e, fmt.Errorf("%s: %w", img.Pin, err)
	}
	if manifest.Config, err = w.blob(imgspecv1.MediaTypeImageConfig, config); err != nil {
		return e, err
	}
	e = Extracted{Path: dir, Pin: img.Pin, Name: nameOf(img), ID: img.Config.Encoded(), Layers: len(layers)}
	if e.Manifest, err = w.index(manifest, e.Name); err != nil {
		return e, err
	}
	return e, errors.Join(atomicfile.SyncDir(stage.Path(imgspecv1.ImageBlobsDir)), stage.Publish())
}

// nameOf is the name in the layout. The pin would be wrong there: the manifest is another one.
func nameOf(img pinset.LockedImage) string {
	if len(img.Tags) > 0 {
		return img.Tags[0]
	}
	repository, digits, _ := strings.Cut(img.Pin, "@sha256:")
	return repository + ":" + cmp.Or(digits, img.Config.Encoded())[:12]
}

const blobsDir = imgspecv1.ImageBlobsDir + "/sha256"

// writer writes the files of a layout.
type writer struct{ *artifact.Stage }

// layers writes the layers, each once.
func (w writer) layers(
	ctx context.Context, layers []layer, manifest *imgspecv1.Manifest, hooks progress.Hooks,
) error {
	total, written := int64(0), map[digest.Digest]int64{}
	for _, l := range layers {
		total += l.UnpackedSize
	}
	hooks.Begin("extract", total)
	for _, l := range layers {
		size, twice := written[l.DiffID]
		if !twice {
			var err error
			if size, err = w.layer(ctx, l); err != nil {
				return missing(err)
			}
			written[l.DiffID] = size
		}
		hooks.Add(int(size))
		manifest.Layers = append(manifest.Layers,
			imgspecv1.Descriptor{MediaType: imgspecv1.MediaTypeImageLayer, Digest: l.DiffID, Size: size})
	}
	return nil
}

// layer writes a layer, which gets its name once it has the DiffID.
func (w writer) layer(ctx context.Context, l layer) (size int64, err error) {
	f, err := atomicfile.Create(w.Path(path.Join(blobsDir, l.DiffID.Encoded())), 0o644)
	if err != nil {
		return 0, err
	}
	defer f.Abort()
	record, files := layout.Layer{ID: l.ID, Parent: l.Parent, UncompressedDigest: l.DiffID}, l.files
	if _, image := files.(*squashfs.Reader); !image {
		files = onDisk{tree{files, folderOf(l.ID)}}
	}
	if err := audit.WriteLayer(ctx, files, record, f); err != nil {
		return 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), f.Commit()
}

// blob writes a document.
func (w writer) blob(mediaType string, content []byte) (imgspecv1.Descriptor, error) {
	d := imgspecv1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	return d, w.Write(path.Join(blobsDir, d.Digest.Encoded()), content)
}

// index writes the manifest, and the index that lists it by a name.
func (w writer) index(manifest imgspecv1.Manifest, name string) (digest.Digest, error) {
	text, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	d, err := w.blob(imgspecv1.MediaTypeImageManifest, text)
	if err != nil {
		return "", err
	}
	d.Annotations = map[string]string{imgspecv1.AnnotationRefName: name}
	index, err := json.Marshal(imgspecv1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex,
		Manifests: []imgspecv1.Descriptor{d},
	})
	if err == nil {
		err = w.Write(imgspecv1.ImageIndexFile, index)
	}
	if err == nil {
		err = w.Write(imgspecv1.ImageLayoutFile, []byte(layout.ArtifactsVersionText))
	}
	return d.Digest, err
}
