package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "crypto/sha256" // for go-digest
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

// Names returns the names of the images of a version that Write makes.
func Names(version string) []string {
	return []string{"demo.example.com/site/app:" + version, "demo.example.com/site/tool:" + version}
}

// made is the creation time of the images. It is constant, so that equal programs give equal bytes.
func made() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Write writes an OCI image layout to dir, with an image for linux/amd64 under each of Names. The images
// share a layer with the program as /bin/program, and each has a small layer of its own, which differs from that of
// another version. Equal programs give equal bytes.
func Write(dir, version string, program []byte) error {
	if err := write(layout(dir), version, program); err != nil {
		return fmt.Errorf("write sample images: %w", err)
	}
	return nil
}

func write(l layout, version string, program []byte) error {
	base, err := l.layer(made(), file{"bin/program", 0o755, program})
	if err != nil {
		return err
	}
	created := made()
	config := imgspecv1.Image{
		Created:  &created,
		Platform: imgspecv1.Platform{OS: "linux", Architecture: "amd64"},
		Config:   imgspecv1.ImageConfig{Entrypoint: []string{"/bin/program"}},
	}
	var images []imgspecv1.Descriptor
	for _, name := range Names(version) {
		own, err := l.layer(made(), file{"etc/image-name", 0o644, []byte(name + "\n")})
		if err != nil {
			return err
		}
		image, err := l.image(config, base, own)
		if err != nil {
			return err
		}
		image.Annotations = map[string]string{imgspecv1.AnnotationRefName: name}
		images = append(images, image)
	}
	return l.close(images...)
}

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
