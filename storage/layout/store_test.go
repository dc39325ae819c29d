package layout_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
)

// id returns the ID that stands for a name.
func id(name string) string { return digest.FromString(name).Encoded() }

// tree returns a file system with these texts. "<x>" is replaced by the ID of x, "<<x>>" by its
// digest.
func tree(texts map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	var pairs []string
	for _, x := range []string{"a", "b", "c", "d"} {
		pairs = append(pairs, "<<"+x+">>", "sha256:"+id(x), "<"+x+">", id(x))
	}
	for name, text := range texts {
		files[name] = &fstest.MapFile{Data: []byte(strings.NewReplacer(pairs...).Replace(text)), Mode: 0o600}
	}
	return files
}

// completeStore returns the texts of a store with each kind of document.
func completeStore() map[string]string {
	return map[string]string{
		"overlay-layers/layers.json": `[
			{"id":"<a>","diff-digest":"<<a>>","compressed-diff-digest":"<<b>>","diff-size":3,"compression":2,"uidset":[0,7]},
			{"id":"<b>","parent":"<a>","created":"2026-01-02T03:04:05Z","diff-digest":"<<b>>"}]`,
		"overlay-layers/volatile-layers.json": `[{"id":"<c>","parent":"<b>","flags":{"incomplete":true}}]`,
		"overlay-images/images.json": `[{
			"id":"<d>","digest":"<<a>>","names":["quay.io/x/a@<<a>>","quay.io/x/a:1"],"layer":"<b>","metadata":"{}",
			"big-data-names":["<<d>>","manifest"],"big-data-sizes":{"manifest":7},"big-data-digests":{"manifest":"<<a>>"}}]`,
		"overlay-containers/containers.json":          `[{"id":"<c>","names":["k8s_app"],"image":"<d>","layer":"<c>"}]`,
		"overlay-containers/volatile-containers.json": `[]`,
		"overlay-layers/layers.lock":                  "one",
		"overlay-images/images.lock":                  "two",
		"pinbox/pinbox.lock.json":                     `{"version":1,"name":"edge","platform":"linux/amd64","sets":[],"images":[]}`,
		"pinbox/delta.json":                           `{"version":1,"bases":[{"lock":"<<c>>"}],"needs":[]}`,
		"pinbox/sets/worker.yaml": `{"kind":"PinnedImageSet","apiVersion":"machineconfiguration.openshift.io/v1",
			"metadata":{"name":"worker"},"spec":{"pinnedImages":[{"name":"quay.io/x/a@<<a>>"}]}}`,
	}
}

// readAll reads all documents.
func readAll(s *layout.Store) error {
	_, err := s.Lock()
	_, deltaErr := s.Delta()
	_, setsErr := s.Sets()
	_, tokenErr := s.Token()
	return errors.Join(err, deltaErr, setsErr, tokenErr,
		s.Layers(func(layout.Layer) error { return nil }),
		s.Images(func(layout.Image) error { return nil }),
		s.Containers(func(layout.Container) error { return nil }))
}

func TestStore(t *testing.T) {
	s := layout.Open(tree(completeStore()))
	var layers []string
	if err := s.Layers(func(l layout.Layer) error {
		layers = append(layers, l.ID+l.Parent)
		if l.Incomplete() != (l.ID == id("c")) {
			t.Errorf("layer %s: got incomplete %v, want %v", l.ID, l.Incomplete(), !l.Incomplete())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{id("c") + id("b"), id("a"), id("b") + id("a")}; !slices.Equal(layers, want) {
		t.Errorf("got the layers %v, want %v", layers, want)
	}
	if err := s.Images(func(got layout.Image) error {
		want := layout.Image{
			ID: id("d"), Digest: digest.FromString("a"), Names: []string{"quay.io/x/a@sha256:" + id("a"), "quay.io/x/a:1"},
			TopLayer: id("b"), Metadata: "{}", BigDataNames: []string{"sha256:" + id("d"), "manifest"},
			BigDataSizes:   map[string]int64{"manifest": 7},
			BigDataDigests: map[string]digest.Digest{"manifest": digest.FromString("a")},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("image (-want +got):\n%s", diff)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	containers := 0
	if err := s.Containers(func(layout.Container) error { containers++; return nil }); err != nil || containers != 1 {
		t.Errorf("got %d containers, error %v, want 1", containers, err)
	}
	lock, err := s.Lock()
	if err != nil || lock.Platform != "linux/amd64" || lock.Name != "edge" {
		t.Errorf("got the lock %+v, error %v, want that of edge for linux/amd64", lock, err)
	}
	delta, err := s.Delta()
	if err != nil || len(delta.Bases) != 1 {
		t.Errorf("got the delta %+v, error %v, want one base", delta, err)
	}
	sets, err := s.Sets()
	if names := slices.Collect(maps.Keys(sets)); err != nil || !slices.Equal(names, []string{"worker.yaml"}) {
		t.Errorf("got the sets %v, error %v, want worker.yaml", names, err)
	}
	token, err := s.Token()
	if want := id("twoone"); err != nil || token != want {
		t.Errorf("got the token %s, error %v, want %s", token, err, want)
	}
}

// A missing document is an error unless a store need not have it.
func TestMissingDocuments(t *testing.T) {
	s := layout.Open(tree(map[string]string{
		"overlay-layers/volatile-layers.json": `[{"id":"<c>"}]`, "overlay-images/images.json": "",
		"overlay-containers/containers.json": "null",
	}))
	delta, err := s.Delta()
	if err != nil || delta.Version != 0 {
		t.Errorf("got the delta %+v, error %v, want none", delta, err)
	}
	if sets, err := s.Sets(); err != nil || len(sets) != 0 {
		t.Errorf("got the sets %v, error %v, want none", sets, err)
	}
	n := 0
	if err := s.Layers(func(layout.Layer) error { n++; return nil }); !errors.Is(err, fs.ErrNotExist) || n != 1 {
		t.Errorf("got %d layers, error %v, want 1 volatile one and ErrNotExist", n, err)
	}
	if err := errors.Join(s.Images(nil), s.Containers(nil)); err != nil {
		t.Errorf("documents without records: got error %v, want none", err)
	}
	_, lockErr := s.Lock()
	_, tokenErr := s.Token()
	for _, err := range []error{lockErr, tokenErr} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got error %v, want ErrNotExist", err)
		}
	}
}

// Every error names the file, the record and the field.
func TestInvalidStores(t *testing.T) {
	if err := readAll(layout.Open(tree(completeStore()))); err != nil {
		t.Fatal(err)
	}
	const layers, images, containers = "overlay-layers/layers.json", "overlay-images/images.json",
		"overlay-containers/containers.json"
	for name, c := range map[string]struct{ file, text, want string }{
		"ID of a layer":         {layers, `[{"id":"<a>"},{"id":"../../../etc"}]`, `record 1: `},
		"empty records":         {layers, `[{},{},{}]`, `record 0: `},
		"null":                  {layers, `[null]`, `record 0: `},
		"parent":                {layers, `[{"id":"<a>","parent":"b"}]`, `parent "b"`},
		"its own parent":        {layers, `[{"id":"<a>","parent":"<a>"}]`, "the layer itself"},
		"digest of a layer":     {layers, `[{"id":"<a>","diff-digest":"sha256:00"}]`, `diff-digest "sha256:00"`},
		"digest of a blob":      {layers, `[{"id":"<a>","compressed-diff-digest":"x"}]`, `compressed-diff-digest "x"`},
		"ID of an image":        {images, `[{"id":"<A>"}]`, `record 0: `},
		"top layer":             {images, `[{"id":"<a>","layer":"l/.."}]`, `layer "l/.."`},
		"digest of an image":    {images, `[{"id":"<a>","digest":"aaaa"}]`, `digest "aaaa"`},
		"name of an image":      {images, `[{"id":"<a>","names":["quay.io/x/a:1","quay.io/\u001b[2J"]}]`, "names: "},
		"name of a document":    {images, `[{"id":"<a>","big-data-names":[".."]}]`, `big-data-names ".."`},
		"no name of a document": {images, `[{"id":"<a>","big-data-digests":{"":"<<a>>"}}]`, `big-data-digests ""`},
		"digest of a document": {
			images, `[{"id":"<a>","big-data-digests":{"manifest":"a"}}]`, `big-data-digests manifest "a"`,
		},
		"ID of a container":       {containers, `[{"id":"c"}]`, `id "c"`},
		"image of a container":    {containers, `[{"id":"<c>","image":"quay.io/x/a:1"}]`, `image "quay.io/x/a:1"`},
		"layer of a container":    {containers, `[{"id":"<c>","layer":"."}]`, `layer "."`},
		"name of a container":     {containers, `[{"id":"<c>","names":["\u0007"]}]`, "names: "},
		"not a list":              {images, `{}`, "not a list"},
		"truncated":               {images, `[{"id":"<a>"}`, "EOF"},
		"truncated in a record":   {images, `[{"id":"<a`, "record 0: "},
		"a second list":           {images, `[] []`, "it continues after the list"},
		"of another type":         {layers, `[{"id":7}]`, "record 0: "},
		"volatile records":        {"overlay-layers/volatile-layers.json", `[{"id":"c"}]`, "record 0: "},
		"volatile containers":     {"overlay-containers/volatile-containers.json", `[{"id":"c"}]`, "record 0: "},
		"lock":                    {"pinbox/pinbox.lock.json", `{"version":1,"platform":"linux/x"}`, "platform"},
		"lock of a newer pinbox":  {"pinbox/pinbox.lock.json", `{"version":2}`, "a newer pinbox made it"},
		"delta":                   {"pinbox/delta.json", `{"version":1,"bases":[{"lock":"aaaa"}]}`, `bases[0]: lock "aaaa"`},
		"delta of a newer pinbox": {"pinbox/delta.json", `{"version":2,"thin":true}`, "a newer pinbox made it"},
		"set":                     {"pinbox/sets/worker.yaml", "kind: Pod\nspec: ]", "worker.yaml"},
		"hidden set":              {"pinbox/sets/.worker.yaml", "", ".worker.yaml"},
		"set with a control char": {"pinbox/sets/\a.yaml", "", `\a.yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			texts := completeStore()
			texts[c.file] = c.text
			err := readAll(layout.Open(tree(texts)))
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), strings.ReplaceAll(c.file, "\a", `\a`)) {
				t.Errorf("got error %v, want one with %q and %q", err, c.file, c.want)
			}
		})
	}
}

// With Strict, unknown fields are an error: a caller that writes the records again would lose them.
func TestStrictStores(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field": {`[{"id":"<a>","mountlabel":"x"}]`, "mountlabel"},
		"flags":         {`[{"id":"<a>","flags":{"incomplete":true}}]`, "flags"},
	} {
		t.Run(name, func(t *testing.T) {
			s := layout.Open(tree(map[string]string{"overlay-layers/layers.json": c.text}))
			if err := s.Layers(func(layout.Layer) error { return nil }); err != nil {
				t.Errorf("not strict: got error %v, want none", err)
			}
			s.Strict = true
			if err := s.Layers(nil); !errors.Is(err, layout.ErrDocument) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want ErrDocument with %q", err, c.want)
			}
		})
	}
}

// All documents of a store share one limit.
func TestLimitsOfAStore(t *testing.T) {
	record := `{"id":"` + id("a") + `"},`
	for name, c := range map[string]struct {
		file, text string
	}{
		"records":   {"overlay-layers/layers.json", "[" + strings.Repeat(record, layout.MaxStoreRecords+1)},
		"lock file": {"overlay-images/images.lock", strings.Repeat("l", 64<<20+1)},
		"lock":      {"pinbox/pinbox.lock.json", `{"version":` + strings.Repeat(" ", 64<<20)},
		"entries":   {"pinbox/pinbox.lock.json", manyTags()},
		"set":       {"pinbox/sets/a.yaml", strings.Repeat("#", 256<<10+1)},
	} {
		t.Run(name, func(t *testing.T) {
			texts := completeStore()
			texts[c.file] = c.text
			if err := readAll(layout.Open(tree(texts))); !errors.Is(err, layout.ErrTooLarge) ||
				!strings.Contains(err.Error(), c.file) {
				t.Errorf("got error %.300v, want ErrTooLarge and %s", err, c.file)
			}
		})
	}
	large := `{"id":"` + id("a") + `","flags":{"x":"` + strings.Repeat("x", 2<<20) + `"}}`
	half := "[" + strings.Repeat(large+",", layout.MaxStoreBytes/(4<<20)) + large + "]"
	s := layout.Open(tree(map[string]string{
		"overlay-layers/volatile-layers.json": half, "overlay-layers/layers.json": half,
	}))
	err := s.Layers(func(layout.Layer) error { return nil })
	if !errors.Is(err, layout.ErrTooLarge) || !strings.Contains(err.Error(), "/layers.json") {
		t.Errorf("got error %.300v of the second document of more than half the limit, want ErrTooLarge and layers.json", err)
	}
}

// manyTags returns a lock whose entries are more than a store may have, although each of its lists is
// small.
func manyTags() string {
	var images []string
	for n := range layout.MaxStoreRecords / 100 {
		tags := `"quay.io/x/a:1"` + strings.Repeat(`,"quay.io/x/a:1"`, 100)
		sum := "sha256:" + id(fmt.Sprint(n))
		images = append(images, `{"pin":"quay.io/x/a@`+sum+`","manifest":"`+sum+`","config":"`+sum+`","tags":[`+tags+`]}`)
	}
	return `{"version":1,"platform":"linux/amd64","images":[` + strings.Join(images, ",") + "]}"
}

// A record of 4 MiB is read, and one with a byte more is an error that names the file, before the
// limit of the store is reached.
func TestLimitOfARecord(t *testing.T) {
	const limit = 4 << 20
	head, tail := `{"id":"`+id("a")+`","flags":{"x":"`, `"}}`
	record := func(size int) string { return head + strings.Repeat("x", size-len(head)-len(tail)) + tail }
	for name, c := range map[string]struct {
		text   string
		layers int
		want   error
	}{
		"at the limit":              {"[" + record(limit-1) + "," + record(limit-1) + "]", 2, nil},
		"over the limit":            {"[" + record(limit+1) + "]", 0, layout.ErrTooLarge},
		"the second over the limit": {"[" + record(100) + "," + record(limit+1) + "]", 1, layout.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			layers := 0
			s := layout.Open(tree(map[string]string{"overlay-layers/layers.json": c.text}))
			err := s.Layers(func(layout.Layer) error { layers++; return nil })
			if layers != c.layers || !errors.Is(err, c.want) {
				t.Errorf("got %d layers, error %.300v, want %d, %v", layers, err, c.layers, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "overlay-layers/layers.json: ") {
				t.Errorf("got error %.300v, want one with the name of the file", err)
			}
		})
	}
}

// Documents must be regular files: opening a pipe blocks until another process opens it for
// writing.
func TestSpecialFiles(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(completeStore())) {
		t.Run(name, func(t *testing.T) {
			files := tree(completeStore())
			files[name].Mode |= fs.ModeNamedPipe
			if err := readAll(layout.Open(files)); !errors.Is(err, layout.ErrDocument) ||
				!strings.Contains(err.Error(), name+": ") {
				t.Errorf("got error %v, want ErrDocument and %s", err, name)
			}
		})
	}
}

// An error of the disk is not ErrDocument.
func TestUnreadableDocument(t *testing.T) {
	s := layout.Open(failing{tree(completeStore())})
	if err := s.Layers(nil); !errors.Is(err, syscall.EIO) || errors.Is(err, layout.ErrDocument) {
		t.Errorf("got error %v, want EIO and no ErrDocument", err)
	}
}

type failing struct{ fs.FS }

func (f failing) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return failingFile{file}, err
}

type failingFile struct{ fs.File }

func (failingFile) Read([]byte) (int, error) { return 0, syscall.EIO }

// A Store can read the text of a RecordEncoder, and the token is its digest.
func TestRecordEncoder(t *testing.T) {
	want := []layout.Layer{{ID: id("a")}, {ID: id("b"), Parent: id("a"), UncompressedDigest: digest.FromString("<&>")}}
	var text bytes.Buffer
	enc := layout.NewRecordEncoder(&text)
	for _, record := range want {
		if err := enc.Add(record); err != nil {
			t.Fatal(err)
		}
	}
	token, err := enc.Close()
	if err != nil {
		t.Fatal(err)
	}
	var got []layout.Layer
	s := layout.Open(fstest.MapFS{"overlay-layers/layers.json": &fstest.MapFile{Data: text.Bytes()}})
	s.Strict = true
	err = s.Layers(func(l layout.Layer) error { got = append(got, l); return nil })
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if want := digest.FromBytes(text.Bytes()).Encoded(); string(token) != want {
		t.Errorf("got the token %s, want %s", token, want)
	}
}

// IDs and keys of any text that is read are safe as names of files, and no text causes a panic.
func FuzzRecords(f *testing.F) {
	for _, text := range []string{
		`[{"id":"<a>","parent":"<b>","diff-digest":"<<a>>","names":["quay.io/x/a:1"],"layer":"<b>","big-data-names":["manifest"]}]`, `[null]`, `null`, `[{}]`,
	} {
		f.Add(tree(map[string]string{"x": text})["x"].Data)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file := &fstest.MapFile{Data: text}
		s := layout.Open(fstest.MapFS{
			"overlay-layers/layers.json": file, "overlay-images/images.json": file, "overlay-containers/containers.json": file,
		})
		checkIDs := func(what string, ids ...string) {
			for _, id := range ids {
				if strings.Trim(id, "0123456789abcdef") != "" {
					t.Errorf("got the %s %q, want hexadecimal digits", what, id)
				}
			}
		}
		_ = s.Layers(func(l layout.Layer) error { checkIDs("layer", l.ID, l.Parent); return nil })
		_ = s.Images(func(i layout.Image) error {
			checkIDs("image", i.ID, i.TopLayer)
			if slices.Contains(i.BigDataNames, "..") {
				t.Errorf("got the documents %q, want none that is ..", i.BigDataNames)
			}
			return nil
		})
		_ = s.Containers(func(c layout.Container) error { checkIDs("container", c.ID, c.Image, c.Layer); return nil })
	})
}
