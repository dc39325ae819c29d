package ocilayout

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "crypto/sha256" // for go-digest
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Layout is the folder of an OCI image layout.
type Layout string

// File is a file of a layer, or a directory if its name ends with a slash.
type File struct {
	Name    string
	Mode    int64
	Content []byte
}

// Layer is a layer of a layout, as a gzipped tar stream.
type Layer struct {
	imgspecv1.Descriptor
	diffID digest.Digest
}

// Layer writes a layer of some files, which have the time.
func (l Layout) Layer(modTime time.Time, files ...File) (Layer, error) {
	var stream, blob bytes.Buffer
	w := tar.NewWriter(&stream)
	for _, f := range files {
		header := tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Content)), ModTime: modTime}
		if err := w.WriteHeader(&header); err != nil {
			return Layer{}, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return Layer{}, err
		}
	}
	if err := w.Close(); err != nil {
		return Layer{}, err
	}
	diffID := digest.FromBytes(stream.Bytes())
	z := gzip.NewWriter(&blob)
	_, err := stream.WriteTo(z)
	if err := errors.Join(err, z.Close()); err != nil {
		return Layer{}, err
	}
	d, err := l.blob(imgspecv1.MediaTypeImageLayerGzip, blob.Bytes())
	return Layer{d, diffID}, err
}

// Image writes the configuration and the manifest of an image. The configuration gets the layers.
func (l Layout) Image(config imgspecv1.Image, layers ...Layer) (d imgspecv1.Descriptor, err error) {
	config.RootFS = imgspecv1.RootFS{Type: "layers"}
	manifest := imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest,
	}
	for _, layer := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.diffID)
		manifest.Layers = append(manifest.Layers, layer.Descriptor)
	}
	if manifest.Config, err = l.document(imgspecv1.MediaTypeImageConfig, config); err != nil {
		return d, err
	}
	return l.document(imgspecv1.MediaTypeImageManifest, manifest)
}

// Index writes an index of images as a blob: an image for several platforms.
func (l Layout) Index(images ...imgspecv1.Descriptor) (imgspecv1.Descriptor, error) {
	return l.document(imgspecv1.MediaTypeImageIndex, index(images))
}

// Close writes the files that make the folder a layout of these images.
func (l Layout) Close(images ...imgspecv1.Descriptor) error {
	return errors.Join(
		l.json(imgspecv1.ImageIndexFile, index(images)),
		l.json(imgspecv1.ImageLayoutFile, imgspecv1.ImageLayout{Version: imgspecv1.ImageLayoutVersion}))
}

func index(images []imgspecv1.Descriptor) imgspecv1.Index {
	return imgspecv1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex, Manifests: images,
	}
}

// document writes a document in JSON as a blob.
func (l Layout) document(mediaType string, value any) (imgspecv1.Descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return imgspecv1.Descriptor{}, err
	}
	return l.blob(mediaType, content)
}

// blob writes content under its digest.
func (l Layout) blob(mediaType string, content []byte) (imgspecv1.Descriptor, error) {
	d := imgspecv1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	return d, l.write(filepath.Join(imgspecv1.ImageBlobsDir, "sha256", d.Digest.Encoded()), content)
}

func (l Layout) json(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.write(name, content)
}

func (l Layout) write(name string, content []byte) error {
	path := filepath.Join(string(l), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_, err := atomicfile.Write(path, content, 0o644)
	return err
}
