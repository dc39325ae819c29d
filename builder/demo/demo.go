package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Names returns the names of the images that Write makes.
func Names() []string {
	return []string{"demo.example.com/site/app:1.0", "demo.example.com/site/tool:1.0"}
}

// Write writes an OCI image layout to dir, with an image for linux/amd64 under each of Names. The images
// share a layer with the program as /bin/program, and each has a small layer of its own. Equal programs give
// equal bytes.
func Write(dir string, program []byte) error {
	l := layout(dir)
	base, err := l.layer("bin/program", 0o755, program)
	if err != nil {
		return err
	}
	index := imgspecv1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageIndex}
	for _, name := range Names() {
		own, err := l.layer("etc/image-name", 0o644, []byte(name+"\n"))
		if err != nil {
			return err
		}
		manifest, err := l.image(base, own)
		if err != nil {
			return err
		}
		manifest.Annotations = map[string]string{imgspecv1.AnnotationRefName: name}
		index.Manifests = append(index.Manifests, manifest)
	}
	return errors.Join(
		l.json(imgspecv1.ImageIndexFile, index),
		l.json(imgspecv1.ImageLayoutFile, imgspecv1.ImageLayout{Version: imgspecv1.ImageLayoutVersion}))
}

// layout is the folder of an OCI image layout.
type layout string

// layer is a gzipped tar stream of one file.
type layer struct {
	imgspecv1.Descriptor
	diffID digest.Digest
}

func (l layout) layer(name string, mode int64, content []byte) (layer, error) {
	var stream, blob bytes.Buffer
	w := tar.NewWriter(&stream)
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: made()}
	if err := w.WriteHeader(&header); err != nil {
		return layer{}, err
	}
	_, err := w.Write(content)
	z := gzip.NewWriter(&blob)
	if err := errors.Join(err, w.Close()); err != nil {
		return layer{}, err
	}
	diffID := digest.FromBytes(stream.Bytes())
	if _, err := stream.WriteTo(z); err != nil {
		return layer{}, err
	}
	if err := z.Close(); err != nil {
		return layer{}, err
	}
	d, err := l.blob(imgspecv1.MediaTypeImageLayerGzip, blob.Bytes())
	return layer{d, diffID}, err
}

// image writes the configuration and the manifest of an image.
func (l layout) image(layers ...layer) (d imgspecv1.Descriptor, err error) {
	created := made()
	config := imgspecv1.Image{
		Created:  &created,
		Platform: imgspecv1.Platform{OS: "linux", Architecture: "amd64"},
		Config:   imgspecv1.ImageConfig{Entrypoint: []string{"/bin/program"}},
		RootFS:   imgspecv1.RootFS{Type: "layers"},
	}
	manifest := imgspecv1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imgspecv1.MediaTypeImageManifest,
	}
	for _, layer := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, layer.diffID)
		manifest.Layers = append(manifest.Layers, layer.Descriptor)
	}
	content, err := json.Marshal(config)
	if err != nil {
		return d, err
	}
	if manifest.Config, err = l.blob(imgspecv1.MediaTypeImageConfig, content); err != nil {
		return d, err
	}
	if content, err = json.Marshal(manifest); err != nil {
		return d, err
	}
	return l.blob(imgspecv1.MediaTypeImageManifest, content)
}

// made is the creation time of the images. It is constant, so that equal programs give equal bytes.
func made() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

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
		return fmt.Errorf("write sample images: %w", err)
	}
	if _, err := atomicfile.Write(path, content, 0o644); err != nil {
		return fmt.Errorf("write sample images: %w", err)
	}
	return nil
}
