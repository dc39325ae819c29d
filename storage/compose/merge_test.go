package compose_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// foreignImage is an image's record with its documents, as a store may have it.
type foreignImage struct {
	record    layout.Image
	documents map[string]string
}

// newForeignImage is an image of one layer with two signatures of one and two bytes.
func newForeignImage(config string) foreignImage {
	manifest := digest.FromString("manifest")
	img := foreignImage{documents: map[string]string{
		"manifest": "manifest", digest.FromString(config).String(): config, layout.SignatureKey(manifest): "122",
	}}
	img.record = layout.Image{
		ID: digest.FromString(config).Encoded(), Digest: manifest, TopLayer: strings.Repeat("a", 64),
		Metadata:       `{"signatures-sizes":{"` + manifest.String() + `":[1,2]}}`,
		BigDataDigests: map[string]digest.Digest{}, BigDataSizes: map[string]int64{},
	}
	for key, content := range img.documents {
		img.record.BigDataNames = append(img.record.BigDataNames, key)
		img.record.BigDataDigests[key] = digest.FromString(content)
		img.record.BigDataSizes[key] = int64(len(content))
	}
	return img
}

// write writes a store with the image alone.
func (i foreignImage) write(t *testing.T) string {
	t.Helper()
	records, err := json.Marshal([]layout.Image{i.record})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{layout.ImagesFile: string(records), layout.LayersFile: "[]"}
	for key, content := range i.documents {
		files[layout.DocumentFile(i.record.ID, key)] = content
	}
	c := newCompressor(t)
	var b bytes.Buffer
	p := c.NewPacker(&b)
	defer p.Abort()
	root := squashfs.NewDir(0o755, 0, 0, 0)
	for name, text := range files {
		content, err := p.Content(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		dir := root
		for part := range strings.SplitSeq(path.Dir(name), "/") {
			if dir.Entry(part) == nil {
				dir.Set(part, squashfs.NewDir(0o755, 0, 0, 0))
			}
			dir = dir.Entry(part)
		}
		dir.Set(path.Base(name), &squashfs.Inode{Mode: syscall.S_IFREG | 0o600, Content: content})
	}
	if err := p.Close(root, nil); err != nil {
		t.Fatal(err)
	}
	pack, err := c.OpenPack(source{bytes.NewReader(b.Bytes())}, int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out.AddPack(pack)
	image, err := out.Close(pack.Root)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, func(w io.Writer) error { _, err := image.WriteTo(w); return err })
}

// An image whose record and documents disagree would be another one in the compacted store.
func TestImagesThatCannotBeCompacted(t *testing.T) {
	config := `{"rootfs":{"diff_ids":["sha256:` + strings.Repeat("a", 64) + `"]}}`
	manifest := digest.FromString("manifest")
	sizes := func(each string) func(*foreignImage) {
		return func(i *foreignImage) {
			i.record.Metadata = `{"signatures-sizes":{"` + manifest.String() + `":` + each + `}}`
		}
	}
	for name, test := range map[string]struct {
		config string
		change func(*foreignImage)
		want   error
	}{
		"intact":                    {config, func(*foreignImage) {}, nil},
		"fewer signatures":          {config, sizes("[1]"), nil},
		"empty signature":           {config, sizes("[0,3]"), nil},
		"signatures that are short": {config, sizes("[1,3]"), compose.ErrForeignStore},
		"negative signature":        {config, sizes("[-1]"), compose.ErrForeignStore},
		"metadata that is none":     {config, func(i *foreignImage) { i.record.Metadata = "x" }, compose.ErrForeignStore},
		"metadata of no manifest": {
			config, func(i *foreignImage) { i.record.Metadata = `{"signatures-sizes":{"x":[1]}}` }, compose.ErrForeignStore,
		},
		"changed document": {
			config, func(i *foreignImage) { i.documents["manifest"] = "Manifest" }, audit.ErrInvalid,
		},
		"manifest of another image": {
			config, func(i *foreignImage) { i.record.Digest = digest.FromString("other") }, compose.ErrForeignStore,
		},
		"configuration of another image": {
			config, func(i *foreignImage) {
				key := digest.FromString(config).String()
				i.documents[key], i.record.BigDataDigests[key] = "other", digest.FromString("other")
				i.record.BigDataSizes[key] = int64(len("other"))
			}, compose.ErrForeignStore,
		},
		"configuration that is none": {"x", func(*foreignImage) {}, compose.ErrForeignStore},
		"configuration of another layer": {
			strings.Replace(config, "aaaa", "bbbb", 1), func(*foreignImage) {}, compose.ErrForeignStore,
		},
		"configuration without a digest": {
			strings.Replace(config, "sha256", "sha999", 1), func(*foreignImage) {}, compose.ErrForeignStore,
		},
		"configuration without any layer": {`{}`, func(*foreignImage) {}, compose.ErrForeignStore},
		"image without any layer":         {`{}`, func(i *foreignImage) { i.record.TopLayer = "" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			img := newForeignImage(test.config)
			test.change(&img)
			plan, err := compose.NewCompaction([]*squashfs.Reader{open(t, img.write(t))}, compose.Filter{})
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err == nil && len(plan.Needs) != strings.Count(test.config, "aaaa")/16 {
				t.Errorf("got needs %v, want the layers of %s", plan.Needs, test.config)
			}
		})
	}
}

// Of the manifests of an image, its own is the first that is signed, else the first: a policy checks the
// signatures of this one only.
func TestSignedManifestIsPreferred(t *testing.T) {
	signature := [][]byte{[]byte("signature")}
	for name, test := range map[string]struct {
		first, second [][]byte
		want          string
	}{
		"none is signed":   {nil, nil, "first"},
		"first is signed":  {signature, nil, "first"},
		"second is signed": {nil, signature, "second"},
		"both are signed":  {signature, signature, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			first := compose.Image{Config: []byte("{}"), Manifest: []byte("first"), Signatures: test.first}
			second := compose.Image{Config: []byte("{}"), Manifest: []byte("second"), Signatures: test.second}
			storeOf := func(images ...compose.Image) *squashfs.Reader {
				return composed(t, func(s *compose.Store, _ *squashfs.Compressor) {
					for _, img := range images {
						s.AddImage(img)
					}
				})
			}
			plan, err := compose.NewCompaction([]*squashfs.Reader{storeOf(first), storeOf(second)}, compose.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			compacted, err := plan.Compose(t.Context(), nil, time.Unix(0, 0), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer compacted.Close()
			file := written(t, func(w io.Writer) error { return compacted.Write(t.Context(), w, func(int64) {}) })
			for label, store := range map[string]*squashfs.Reader{"one store": storeOf(first, second), "two": open(t, file)} {
				signed := test.first != nil || test.second != nil
				if err := layout.Open(store).Images(func(i layout.Image) error {
					if i.Digest != digest.FromString(test.want) || slices.Contains(i.BigDataNames, "signatures") != signed {
						t.Errorf("%s: got manifest %s with %v, want the %s one, signed %v",
							label, i.Digest, i.BigDataNames, test.want, signed)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
