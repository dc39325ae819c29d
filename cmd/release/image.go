package main

import (
	"context"
	"os"
	"os/exec"
	"strings"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pinbox/pinbox/builder/ocilayout"
)

// imageFile is an OCI archive of the image for all Linux platforms: the two static programs and an empty /tmp. The
// certificates of registries are those of the machine that runs it.
const imageFile = "pinbox-image.tar"

// image makes the image of pinbox.
func (r *release) image(ctx context.Context) error {
	dir := r.path(partsDir + "/image")
	l := ocilayout.Layout(dir)
	var images []imgspecv1.Descriptor
	for _, platform := range r.platforms {
		if system, arch, _ := strings.Cut(platform, "/"); system == "linux" {
			image, err := r.imageOf(l, arch)
			if err != nil {
				return err
			}
			images = append(images, image)
		}
	}
	index, err := l.Index(images...)
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{imgspecv1.AnnotationRefName: r.version}
	if err := l.Close(index); err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "tar", "--create", "--file", r.path(imageFile), "--directory", dir, "--sort=name",
		"--format=ustar", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "."))
}

// imageOf writes the image for one architecture.
func (r *release) imageOf(l ocilayout.Layout, arch string) (d imgspecv1.Descriptor, err error) {
	files := []ocilayout.File{{Name: "tmp/", Mode: 0o1777}, {Name: "usr/", Mode: 0o755}, {Name: "usr/bin/", Mode: 0o755}}
	for _, name := range []string{"pinbox", "pinbox-node"} {
		content, err := os.ReadFile(r.path(name + "-linux-" + arch))
		if err != nil {
			return d, err
		}
		files = append(files, ocilayout.File{Name: "usr/bin/" + name, Mode: 0o755, Content: content})
	}
	layer, err := l.Layer(r.time, files...)
	if err != nil {
		return d, err
	}
	platform := imgspecv1.Platform{OS: "linux", Architecture: arch}
	d, err = l.Image(imgspecv1.Image{
		Created: &r.time, Platform: platform,
		Config: imgspecv1.ImageConfig{
			Entrypoint: []string{"/usr/bin/pinbox"}, Env: []string{"PATH=/usr/bin"}, WorkingDir: "/work",
			Labels: map[string]string{
				imgspecv1.AnnotationSource: "https://github.com/pinbox/pinbox", imgspecv1.AnnotationRevision: r.commit,
				imgspecv1.AnnotationVersion: r.version, imgspecv1.AnnotationLicenses: "Apache-2.0",
			},
		},
	}, layer)
	d.Platform = &platform
	return d, err
}
