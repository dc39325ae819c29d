package inspect_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/root"
)

func TestMain(m *testing.M) {
	if !root.Init() {
		m.Run()
	}
}

// noise returns bytes that do not compress.
func noise(seed byte, size int) string {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(text) // never fails
	return string(text)
}

// push makes images of layers, and returns their pins in the order of names.
func push(t *testing.T, r *sample.Registry, name string, layers ...[]sample.Entry) string {
	t.Helper()
	var all []v1.Layer
	for _, entries := range layers {
		l, err := sample.TarLayer(entries...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	img, err := sample.Image("amd64", false, all...)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := r.Push(t.Context(), name, img)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// build makes an appliance of the pins, and returns its folder.
func build(t *testing.T, pins ...string) string {
	t.Helper()
	o := appliance.Options(t, sample.SetNamed("s", pins...))
	appliance.Build(t, o)
	return o.Out
}

func read(t *testing.T, pins ...string) inspect.Report {
	t.Helper()
	return readPath(t, build(t, pins...))
}

// readPath reads what fills the store of a folder or of a lock.
func readPath(t *testing.T, name string) inspect.Report {
	t.Helper()
	r, err := release.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	report, err := inspect.Read(t.Context(), r, inspect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// What the removal of an image saves is what a build without it is smaller, but for its records.
func TestSaving(t *testing.T) {
	const records = 12_000 // bytes: records, and what a store is aligned to
	r, _ := appliance.Registry(t)
	base := []sample.Entry{sample.File("base", noise(1, 400_000))}
	pins := []string{
		push(t, r, "two/layers", base, []sample.Entry{sample.File("own", noise(2, 300_000)), sample.File("same", noise(3, 250_000))}),
		// The contents of one file are in a layer of the image above, too: it saves nothing.
		push(t, r, "same/content", base, []sample.Entry{sample.File("other-name", noise(3, 250_000))}),
		push(t, r, "small/files", []sample.Entry{sample.File("a", noise(4, 9000)), sample.File("b", noise(5, 9000))}),
	}
	whole := read(t, pins...)
	savings := map[string]int64{}
	for _, img := range whole.Images {
		savings[img.Pin] = img.Saving
	}
	for i, pin := range pins {
		var others []string
		others = append(append(others, pins[:i]...), pins[i+1:]...)
		saved := whole.Size - read(t, others...).Size
		if got := savings[pin]; got > saved+records || got < saved-records {
			t.Errorf("%s: got a saving of %d bytes, want %d, give or take %d", pin, got, saved, records)
		}
	}
	if want := int64(400_000 + 300_000 + 250_000 + 18_000); whole.Stored < want || whole.Stored > want+records {
		t.Errorf("got %d bytes of contents, want %d, which do not compress", whole.Stored, want)
	}
}

func TestHiddenFiles(t *testing.T) {
	r, _ := appliance.Registry(t)
	report := read(t, push(t, r, "a/hides",
		[]sample.Entry{sample.File("etc/old", noise(1, 200_000)), sample.File("etc/gone", noise(2, 150_000)), sample.File("kept", noise(3, 300_000))},
		[]sample.Entry{sample.File("etc/old", "new"), sample.Whiteout("etc/gone")}))
	var got []string
	for _, f := range report.Hidden {
		got = append(got, f.Path)
	}
	if strings.Join(got, " ") != "etc/old etc/gone" || report.HiddenStored < 350_000 || report.HiddenStored > 351_000 {
		t.Errorf("got %v of %d bytes, want etc/old and etc/gone of 350000", got, report.HiddenStored)
	}
	if report.Largest[0].Path != "kept" || report.Largest[0].Size != 300_000 {
		t.Errorf("got %+v, want kept", report.Largest[0])
	}
}

// A delta has some of its layers elsewhere, and so has whoever has only its lock.
func TestLayersElsewhere(t *testing.T) {
	r, _ := appliance.Registry(t)
	o := appliance.Options(t, sample.SetNamed("s", push(t, r, "a/b", []sample.Entry{sample.File("a", noise(1, 100_000))})))
	appliance.Build(t, o)
	report := readPath(t, filepath.Join(o.Out, "pinbox.lock.json"))
	if !report.Layers[0].Elsewhere || report.Size != 0 || report.Images[0].Blobs < 100_000 {
		t.Errorf("got %+v, want the size of the blob, and no store", report)
	}
	var page bytes.Buffer
	if err := report.HTML(&page, "test"); err != nil || strings.Contains(page.String(), "<script") {
		t.Errorf("got %v and a page with a script, want none, as there is no treemap", err)
	}
}

// A store without the end of its hash tree can be read, and one that is missing has a lock beside it: the report says
// so.
func TestIncompleteStore(t *testing.T) {
	r, _ := appliance.Registry(t)
	dir := build(t, push(t, r, "a/b", []sample.Entry{sample.File("a", noise(1, 100_000))}))
	store := filepath.Join(dir, layout.StoreFile)
	if report := readPath(t, dir); len(report.Warnings) > 0 {
		t.Errorf("got the warnings %q of a whole store", report.Warnings)
	}
	fi, err := os.Stat(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		change func() error
		want   string
	}{
		{func() error { return os.Truncate(store, fi.Size()-100) }, "store.squashfs is incomplete, with "},
		{func() error { return os.Remove(store) }, "store.squashfs is missing: "},
	} {
		if err := test.change(); err != nil {
			t.Fatal(err)
		}
		if report := readPath(t, dir); len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], test.want) {
			t.Errorf("got the warnings %q, want %q", report.Warnings, test.want)
		}
	}
}

// The JSON of a report has no tree: it is for programs that ask for sums.
func TestReportForPrograms(t *testing.T) {
	r, _ := appliance.Registry(t)
	text, err := json.Marshal(read(t, push(t, r, "a/b", []sample.Entry{sample.File("a", noise(1, 50_000))})))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"saving":50`, `"hiddenStored":0`, `"largest":[{"path":"a"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}
