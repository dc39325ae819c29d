package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	dockerlibrary "go.podman.io/image/v5/docker/archive"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/fixtures/sample"
)

// writeArchive writes an archive of `docker save` with these members, in this order.
func writeArchive(t *testing.T, members ...sample.Entry) string {
	t.Helper()
	content, err := sample.Tar(members...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "saved.tar")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// config returns a configuration of an image whose layers have these contents.
func config(layers ...string) string {
	ids := make([]string, len(layers))
	for i, l := range layers {
		ids[i] = fmt.Sprintf("%q", digest.FromString(l))
	}
	return `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[` + strings.Join(ids, ",") + `]}}`
}

// writeCompressed writes an archive of two images with compressed layers, one of which they share.
func writeCompressed(t *testing.T) string {
	t.Helper()
	var layers []v1.Layer
	for _, body := range []string{"base", "one", "two"} {
		l, err := sample.TarLayer(sample.File(body, body))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	images := map[name.Reference]v1.Image{}
	for i, tags := range [][]string{
		{"quay.example.com/site/one:1", "quay.example.com/site/one:2"}, {"quay.example.com/site/two:1"},
	} {
		img, err := sample.Image("amd64", true, layers[0], layers[1+i])
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			ref, err := name.ParseReference(tag)
			if err != nil {
				t.Fatal(err)
			}
			images[ref] = img
		}
	}
	file := filepath.Join(t.TempDir(), "compressed.tar")
	if err := tarball.MultiRefWriteToFile(file, images); err != nil {
		t.Fatal(err)
	}
	return file
}

// The images, names, manifests and blobs of an archive equal those of the library.
func TestDockerArchiveEqualsLibrary(t *testing.T) {
	for name, file := range map[string]string{
		"compressed layers": writeCompressed(t),
		"short names, and none": writeArchive(t,
			sample.File("./a.json", config("one")), sample.File("./one/layer.tar", "one"),
			sample.File("b.json", config("one", "two")), sample.File("two/layer.tar", "two"),
			sample.File("./manifest.json",
				`[{"Config":"a.json","RepoTags":["busybox:1","localhost/b:2"],"Layers":["one/layer.tar"]},`+
					`{"Config":"./b.json","RepoTags":null,"Layers":["one/layer.tar","two/layer.tar"]}]`)),
		"a layer twice": writeArchive(t,
			sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["a:1"],"Layers":["one/layer.tar","two/layer.tar"]}]`),
			sample.File("a.json", config("one", "one")), sample.File("one/layer.tar", "one"),
			sample.Symlink("two/layer.tar", "../one/layer.tar")),
		"no layers": writeArchive(t, sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["a:1"],"Layers":[]}]`),
			sample.File("a.json", config())),
		"no images": writeArchive(t, sample.File("manifest.json", `[]`)),
	} {
		t.Run(name, func(t *testing.T) {
			found, closer, err := OpenArchive(t.Context(), file, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer closer.Close()
			reader, err := dockerlibrary.NewReader(nil, file)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			images, err := reader.List()
			if err != nil {
				t.Fatal(err)
			}
			for _, refs := range images {
				for _, ref := range refs {
					if len(found) == 0 {
						t.Fatalf("got no image, want %s", ref.StringWithinTransport())
					}
					compareImage(t, found[0], ref)
					found = found[1:]
				}
			}
			if len(found) > 0 {
				t.Errorf("got more images than the library: %+v", found)
			}
		})
	}
}

// compareImage compares an image with the library's.
func compareImage(t *testing.T, found LocalImage, ref imgtypes.ImageReference) {
	t.Helper()
	want, err := ref.NewImageSource(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	var named string
	if ref.DockerReference() != nil {
		named = ref.DockerReference().String()
	}
	got := localSource{blobStore: found.blobs, top: found.Digest}
	gotManifest, gotType, err := got.GetManifest(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantManifest, wantType, err := want.GetManifest(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if found.Name != named || gotType != wantType || !bytes.Equal(gotManifest, wantManifest) {
		t.Errorf("got\n%s %s %s\nwant\n%s %s %s", found.Name, gotType, gotManifest, named, wantType, wantManifest)
	}
	parsed, err := manifest.Schema2FromManifest(wantManifest)
	if err != nil {
		t.Fatal(err)
	}
	infos := []imgtypes.BlobInfo{parsed.ConfigInfo()}
	for _, l := range parsed.LayerInfos() {
		infos = append(infos, l.BlobInfo)
	}
	for _, info := range infos {
		gotBlob, wantBlob := readBlob(t, got, info), readBlob(t, want, info)
		if gotBlob != wantBlob || digest.FromString(gotBlob) != info.Digest || int64(len(gotBlob)) != info.Size {
			t.Errorf("blob %s of %d bytes: got %q, want %q", info.Digest, info.Size, gotBlob, wantBlob)
		}
	}
}

func readBlob(t *testing.T, src imgtypes.ImageSource, info imgtypes.BlobInfo) string {
	t.Helper()
	r, size, err := src.GetBlob(t.Context(), info, none.NoCache)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || int64(len(content)) != size {
		t.Fatalf("got %d bytes, %v, want %d", len(content), err, size)
	}
	return string(content)
}

// A bug was to refuse an archive in which images share a layer: `docker save` writes a link to it,
// and the library takes the link for an empty layer.
func TestDockerArchiveWithLinks(t *testing.T) {
	found, closer, err := OpenArchive(t.Context(), writeArchive(t,
		sample.Symlink("a/layer.tar", "../b/layer.tar"), sample.File("a.json", config("one")),
		sample.File("b/layer.tar", "one"), sample.File("b.json", config("one", "two")),
		sample.File("c/layer.tar", "two"),
		sample.File("manifest.json",
			`[{"Config":"a.json","RepoTags":["a:1"],"Layers":["a/layer.tar"]},`+
				`{"Config":"b.json","RepoTags":["b:1"],"Layers":["b/layer.tar","c/layer.tar"]}]`)), "")
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	want := imgtypes.BlobInfo{Digest: digest.FromString("one"), Size: 3, MediaType: string(types.DockerLayer)}
	if got := readBlob(t, localSource{blobStore: found[0].blobs, top: found[0].Digest}, want); got != "one" {
		t.Errorf("got %q, want %q", got, "one")
	}
}

func TestInvalidDockerArchives(t *testing.T) {
	layer, config := sample.File("one.tar", "one"), sample.File("a.json", config("one"))
	for text, members := range map[string][]sample.Entry{
		"manifest.json: unexpected end": {sample.File("manifest.json", `[`)},
		"image 0 in manifest.json: open a.json": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), layer,
		},
		"image 0 in manifest.json: layer sha256:7692c3ad3540bb803c02": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), config,
		},
		"a.json does not have the 2 layers of manifest.json": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar","one.tar"]}]`), config, layer,
		},
		"a.json does not have the 1 layers": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), sample.File("a.json", "{}"), layer,
		},
		"a.json: unexpected end": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), sample.File("a.json", "{"), layer,
		},
		`tag "A:1": `: {
			sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["A:1"],"Layers":["one.tar"]}]`), config, layer,
		},
		`name "a" has no tag`: {
			sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["a"],"Layers":["one.tar"]}]`), config, layer,
		},
	} {
		t.Run(text, func(t *testing.T) {
			if _, closer, err := OpenArchive(t.Context(), writeArchive(t, members...), ""); !errors.Is(err, ErrLocal) || closer != nil ||
				!strings.Contains(err.Error(), text) {
				t.Errorf("got closer %v and error %v, want no closer and %v with %q", closer, err, ErrLocal, text)
			}
		})
	}
}
