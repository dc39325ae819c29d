package demo

import (
	"fmt"
	"time"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
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
