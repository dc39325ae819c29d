package source_test

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	godigest "github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/fault"
)

// layoutDir is an OCI layout that a test fills.
type layoutDir struct {
	t       *testing.T
	dir     string
	entries []map[string]any
}

// blob writes a blob by an algorithm, and returns its digest.
func (l *layoutDir) blob(content string, algorithm godigest.Algorithm) godigest.Digest {
	l.t.Helper()
	d := algorithm.FromString(content)
	name := filepath.Join(l.dir, "blobs", string(algorithm), d.Encoded())
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
		l.t.Fatal(err)
	}
	return d
}

// manifest adds a manifest whose configuration has a type, and an entry with annotations for it.
func (l *layoutDir) manifest(config, more string, annotations map[string]string) godigest.Digest {
	l.t.Helper()
	d := l.blob(`{"schemaVersion":2,"config":{"mediaType":"`+config+`","digest":"sha256:`+strings.Repeat("a", 64)+
		`","size":2},"layers":[]`+more+`}`, godigest.SHA256)
	// As go-containerregistry writes it.
	l.entries = append(l.entries, map[string]any{"digest": d, "artifactType": config, "annotations": annotations})
	return d
}

func (l *layoutDir) write() string {
	l.t.Helper()
	text, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": l.entries})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, "index.json"), text, 0o644); err != nil {
		l.t.Fatal(err)
	}
	return l.dir
}

const (
	imageConfig = "application/vnd.oci.image.config.v1+json"
	emptyConfig = "application/vnd.oci.empty.v1+json"
)

func named(name string) map[string]string {
	return map[string]string{"org.opencontainers.image.ref.name": name}
}

// What stands beside images in a layout, as signatures of cosign, referrers of ORAS, charts and files of Hauler, is
// left out with a warning. A bug was that a layout with one of them could not be used.
func TestLayoutsWithOtherThanImages(t *testing.T) {
	hex64 := strings.Repeat("b", 64)
	for name, c := range map[string]struct {
		fill func(l *layoutDir)
		name string // =NAME
		one  string // behind the path
		want []string
		left string // how many
		err  string
	}{
		"referrers of ORAS": {
			fill: func(l *layoutDir) {
				top := l.manifest(imageConfig, "", named("quay.io/site/app:1"))
				l.manifest(emptyConfig, `,"artifactType":"application/spdx+json","subject":{"digest":"`+top.String()+`"}`, nil)
			},
			want: []string{"quay.io/site/app:1"}, left: "1 entries",
		},
		"cosign save": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", map[string]string{"kind": "dev.cosignproject.cosign/image"})
				l.manifest(imageConfig, `,"x":1`, map[string]string{"kind": "dev.cosignproject.cosign/sigs"})
			},
			name: "quay.io/site/app:1", want: []string{"quay.io/site/app:1"}, left: "1 entries",
		},
		"Hauler": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", map[string]string{
					"kind": "dev.hauler/image", "io.containerd.image.name": "index.docker.io/library/nginx:1"})
				l.manifest(imageConfig, `,"x":1`, map[string]string{
					"kind": "dev.hauler/atts", "io.containerd.image.name": "index.docker.io/library/nginx:1"})
				l.manifest("application/vnd.content.hauler.file.config.v1+json", "", named("hauler/setup.sh:latest"))
				l.manifest("application/vnd.cncf.helm.config.v1+json", "", named("hauler/chart:1.2.3"))
			},
			want: []string{"docker.io/library/nginx:1"}, left: "3 entries",
		},
		"tags of cosign": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", named("quay.io/site/app:1"))
				l.manifest(imageConfig, `,"x":1`, named("quay.io/site/app:sha256-"+hex64+".sig"))
				l.manifest(imageConfig, `,"x":2`, named("sha256-"+hex64+".att"))
				l.manifest(imageConfig, `,"x":3`, named("quay.io/site/app:sha256-"+hex64)) // an image of oc-mirror
			},
			want: []string{"quay.io/site/app:1", "quay.io/site/app:sha256-" + hex64}, left: "2 entries",
		},
		"two images without names, and one name": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", nil)
				l.manifest(imageConfig, `,"x":1`, nil)
			},
			name: "quay.io/site/app:1", err: "choose one: ",
		},
		"one of two by its tag": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", named("1.0"))
				l.manifest(imageConfig, `,"x":1`, named("2.0"))
			},
			one: ":2.0", name: "quay.io/site/app:2", want: []string{"quay.io/site/app:2"},
		},
		"one of two by its digest": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", nil)
				l.manifest(imageConfig, `,"x":1`, nil)
			},
			one: "@", name: "quay.io/site/app:2", want: []string{"quay.io/site/app:2"},
		},
		"a name with another digest": {
			fill: func(l *layoutDir) { l.manifest(imageConfig, "", named("quay.io/site/app@sha256:"+hex64)) },
			want: []string{"quay.io/site/app"}, left: "the image that is named quay.io/site/app@sha256:" + hex64 + " is sha256:",
		},
		"a tag that is not there": {
			fill: func(l *layoutDir) { l.manifest(imageConfig, "", named("1.0")) },
			one:  ":3.0", name: "quay.io/site/app:3", err: ": has no image with the digest or tag 3.0; it has 1.0",
		},
		"a tag that is not there, and no names": {
			fill: func(l *layoutDir) { l.manifest(imageConfig, "", nil) },
			one:  ":3.0", err: "with the digest or tag 3.0; it has sha256:",
		},
		"a digest that is asked for": {
			fill: func(l *layoutDir) { l.manifest(imageConfig, "", named("1.0")) },
			name: "quay.io/site/app:1@sha256:" + hex64,
			err:  "another digest: quay.io/site/app:1@sha256:" + hex64 + " is asked for, and it has sha256:",
		},
		"a name in upper case": {
			fill: func(l *layoutDir) { l.manifest(imageConfig, "", named("1.0")) },
			name: "Quay.io/Site/App", err: `/001: image "Quay.io/Site/App": `,
		},
		"an image without a name": {
			fill: func(l *layoutDir) { l.manifest(imageConfig, "", nil) }, err: "image has no full name",
		},
		"signatures alone": {
			fill: func(l *layoutDir) {
				l.manifest(imageConfig, "", map[string]string{"kind": "dev.cosignproject.cosign/sigs"})
			},
			name: "quay.io/site/app:1", err: "but no image",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &layoutDir{t: t, dir: t.TempDir()}
			c.fill(l)
			path := l.write() + c.one
			if c.one == "@" {
				path += l.entries[1]["digest"].(godigest.Digest).String()
			}
			oci := source.OCI{{Path: path, Name: c.name}}
			m, err := oci.Read(t.Context(), source.Options{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, input := range m.Local {
				for _, img := range input.Images {
					got = append(got, img.Name.String())
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if warnings := strings.Join(m.Warnings, "\n"); c.left == "" && warnings != "" || !strings.Contains(warnings, c.left) {
				t.Errorf("got the warnings %q, want %q", warnings, c.left)
			}
		})
	}
}

// A manifest that a layout names by its SHA-512 is intact. A bug was to call it damaged.
func TestManifestBySHA512(t *testing.T) {
	l := &layoutDir{t: t, dir: t.TempDir()}
	content := `{"schemaVersion":2}`
	l.entries = []map[string]any{{"digest": l.blob(content, godigest.SHA512), "annotations": named("quay.io/site/app:1")}}
	read := func() (source.Content, error) {
		oci := source.OCI{{Path: l.write()}}
		return oci.Read(t.Context(), source.Options{})
	}
	m, err := read()
	if err != nil || m.Local[0].Images[0].Found.Digest != godigest.FromString(content) {
		t.Errorf("got %v, want the SHA-256 of the manifest", err)
	}
	sum := sha512.Sum512([]byte(content))
	blob := filepath.Join(l.dir, "blobs", "sha512", hex.EncodeToString(sum[:]))
	if err := os.WriteFile(blob, []byte(`{"schemaVersion":3}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "does not match its digest") {
		t.Errorf("another content: got %v, want an error", err)
	}
}

// An intact layout without an image is not damaged.
func TestEmptyLayout(t *testing.T) {
	dir := (&layoutDir{t: t, dir: t.TempDir()}).write()
	_, err := source.Read(t.Context(), []source.Entry{{Source: &source.OCI{{Path: dir}}}},
		source.Options{Appliance: "a"})
	if !errors.Is(err, source.ErrEmptyList) || fault.Of(err).Exit != fault.Input {
		t.Errorf("got %v, want %v", err, source.ErrEmptyList)
	}
}
