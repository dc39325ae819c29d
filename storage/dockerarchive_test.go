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

// saved is an archive of `docker save` by its members, in this order.
func saved(t *testing.T, members ...sample.Entry) string {
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

// savedConfig is a configuration with layers of these contents.
func savedConfig(layers ...string) string {
	ids := make([]string, len(layers))
	for i, l := range layers {
		ids[i] = fmt.Sprintf("%q", digest.FromString(l))
	}
	return `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[` + strings.Join(ids, ",") + `]}}`
}

// packed is an archive whose layers are compressed, of two images that share one.
func packed(t *testing.T) string {
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
	file := filepath.Join(t.TempDir(), "packed.tar")
	if err := tarball.MultiRefWriteToFile(file, images); err != nil {
		t.Fatal(err)
	}
	return file
}

// The library gives the same images, names, manifests and blobs of every archive.
func TestDockerArchiveIsTheLibrarys(t *testing.T) {
	for kind, file := range map[string]string{
		"compressed layers": packed(t),
		"short names, and none": saved(t,
			sample.File("./a.json", savedConfig("one")), sample.File("./one/layer.tar", "one"),
			sample.File("b.json", savedConfig("one", "two")), sample.File("two/layer.tar", "two"),
			sample.File("./manifest.json",
				`[{"Config":"a.json","RepoTags":["busybox:1","localhost/b:2"],"Layers":["one/layer.tar"]},{"Config":"./b.json","RepoTags":null,"Layers":["one/layer.tar","two/layer.tar"]}]`)),
		"a layer twice": saved(t,
			sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["a:1"],"Layers":["one/layer.tar","two/layer.tar"]}]`),
			sample.File("a.json", savedConfig("one", "one")), sample.File("one/layer.tar", "one"),
			sample.Symlink("two/layer.tar", "../one/layer.tar")),
		"no layers": saved(t, sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["a:1"],"Layers":[]}]`),
			sample.File("a.json", savedConfig())),
		"no images": saved(t, sample.File("manifest.json", `[]`)),
	} {
		t.Run(kind, func(t *testing.T) {
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
						t.Fatalf("no %s", ref.StringWithinTransport())
					}
					sameImage(t, found[0], ref)
					found = found[1:]
				}
			}
			if len(found) > 0 {
				t.Errorf("too many: %+v", found)
			}
		})
	}
}

// sameImage compares an image with that of the library.
func sameImage(t *testing.T, found LocalImage, ref imgtypes.ImageReference) {
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
		t.Errorf("%s %s %s\nis not\n%s %s %s", found.Name, gotType, gotManifest, named, wantType, wantManifest)
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
		a, b := blobOf(t, got, info), blobOf(t, want, info)
		if a != b || digest.FromString(a) != info.Digest || int64(len(a)) != info.Size {
			t.Errorf("%s: %q is not %q", info.Digest, a, b)
		}
	}
}

func blobOf(t *testing.T, src imgtypes.ImageSource, info imgtypes.BlobInfo) string {
	t.Helper()
	r, size, err := src.GetBlob(t.Context(), info, none.NoCache)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || int64(len(content)) != size {
		t.Fatalf("%d of %d bytes, %v", len(content), size, err)
	}
	return string(content)
}

// Layers of two images that are one, of which `docker save` writes a link the second time,
// were refused, since the library takes the link for an empty layer.
func TestDockerArchiveWithLinks(t *testing.T) {
	found, closer, err := OpenArchive(t.Context(), saved(t,
		sample.Symlink("a/layer.tar", "../b/layer.tar"), sample.File("a.json", savedConfig("one")),
		sample.File("b/layer.tar", "one"), sample.File("b.json", savedConfig("one", "two")),
		sample.File("c/layer.tar", "two"),
		sample.File("manifest.json",
			`[{"Config":"a.json","RepoTags":["a:1"],"Layers":["a/layer.tar"]},{"Config":"b.json","RepoTags":["b:1"],"Layers":["b/layer.tar","c/layer.tar"]}]`)), "")
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	want := imgtypes.BlobInfo{Digest: digest.FromString("one"), Size: 3, MediaType: string(types.DockerLayer)}
	if got := blobOf(t, localSource{blobStore: found[0].blobs, top: found[0].Digest}, want); got != "one" {
		t.Errorf("%q", got)
	}
}

func TestDockerArchivesThatAreWrong(t *testing.T) {
	one, config := sample.File("one.tar", "one"), sample.File("a.json", savedConfig("one"))
	for says, members := range map[string][]sample.Entry{
		"manifest.json: unexpected end": {sample.File("manifest.json", `[`)},
		"image 0 in manifest.json: open a.json": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), one,
		},
		"image 0 in manifest.json: layer sha256:7692c3ad3540bb803c02": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), config,
		},
		"a.json has not the 2 layers that manifest.json has": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar","one.tar"]}]`), config, one,
		},
		"a.json has not the 1 layers": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), sample.File("a.json", "{}"), one,
		},
		"a.json: unexpected end": {
			sample.File("manifest.json", `[{"Config":"a.json","Layers":["one.tar"]}]`), sample.File("a.json", "{"), one,
		},
		`tag "A:1": `: {
			sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["A:1"],"Layers":["one.tar"]}]`), config, one,
		},
		`tag "a" has no tag`: {
			sample.File("manifest.json", `[{"Config":"a.json","RepoTags":["a"],"Layers":["one.tar"]}]`), config, one,
		},
	} {
		if _, closer, err := OpenArchive(t.Context(), saved(t, members...), ""); !errors.Is(err, ErrLocal) || closer != nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%v: not %q", err, says)
		}
	}
}
