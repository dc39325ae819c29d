package demo

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

// layout is the folder of an OCI image layout.
type layout string

// file is a file of a layer.
type file struct {
	name    string
	mode    int64
	content []byte
}

// layer is a layer of a layout, as a gzipped tar stream.
type layer struct {
	imgspecv1.Descriptor
	diffID digest.Digest
}

// layer writes a layer of some files, which have the time.
func (l layout) layer(modTime time.Time, files ...file) (layer, error) {
	var stream, blob bytes.Buffer
	w := tar.NewWriter(&stream)
	for _, f := range files {
		header := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: modTime}
		if err := w.WriteHeader(&header); err != nil {
			return layer{}, err
		}
		if _, err := w.Write(f.content); err != nil {
			return layer{}, err
		}
	}
	if err := w.Close(); err != nil {
		return layer{}, err
	}
	diffID := digest.FromBytes(stream.Bytes())
	z := gzip.NewWriter(&blob)
	_, err := stream.WriteTo(z)
	if err := errors.Join(err, z.Close()); err != nil {
		return layer{}, err
	}
	d, err := l.blob(imgspecv1.MediaTypeImageLayerGzip, blob.Bytes())
	return layer{d, diffID}, err
}

// image writes the configuration and the manifest of an image. The configuration gets the layers.
func (l layout) image(config imgspecv1.Image, layers ...layer) (d imgspecv1.Descriptor, err error) {
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

// close writes the files that make the folder a layout of these images.
func (l layout) close(images ...imgspecv1.Descriptor) error {
	return errors.Join(
		l.json(imgspecv1.ImageIndexFile, imgspecv1.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex, Manifests: images,
		}),
		l.json(imgspecv1.ImageLayoutFile, imgspecv1.ImageLayout{Version: imgspecv1.ImageLayoutVersion}))
}

// document writes a document in JSON as a blob.
func (l layout) document(mediaType string, value any) (imgspecv1.Descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return imgspecv1.Descriptor{}, err
	}
	return l.blob(mediaType, content)
}

// blob writes content under its digest.
func (l layout) blob(mediaType string, content []byte) (imgspecv1.Descriptor, error) {
	d := imgspecv1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	return d, l.write(filepath.Join(imgspecv1.ImageBlobsDir, "sha256", d.Digest.Encoded()), content)
}

func (l layout) json(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.write(name, content)
}

func (l layout) write(name string, content []byte) error {
	path := filepath.Join(string(l), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_, err := atomicfile.Write(path, content, 0o644)
	return err
}
