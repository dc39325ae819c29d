package builder_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// full builds an appliance of images and returns its folder.
func full(t *testing.T, pins ...string) string {
	t.Helper()
	o := options(t, sample.Set("worker", pins...))
	build(t, o)
	return o.Out
}

// delta builds a delta of images with the bases from, and returns its folder.
func delta(t *testing.T, from []string, pins ...string) (string, builder.Result) {
	t.Helper()
	o := options(t, sample.Set("worker", pins...))
	o.From = from
	r, err := builder.Delta(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return o.Out, r
}

// mount mounts the stores of folders, as a node does.
func mount(t *testing.T, folders ...string) (roots []string) {
	t.Helper()
	for _, dir := range folders {
		store := filepath.Join(dir, layout.StoreFile)
		if _, err := os.Stat(store); err != nil {
			store = filepath.Join(dir, layout.DeltaStoreFile)
		}
		roots = append(roots, fixtures.Mount(t, store))
	}
	return roots
}

// checkStores checks stores together with containers/storage, and compares the trees of images with those
// of a full store.
func checkStores(t *testing.T, want map[string]map[string]string, roots []string, pins ...string) {
	t.Helper()
	store := oracle.Open(t, "", roots...)
	if complaints := oracle.Check(t, store); len(complaints) > 0 {
		t.Errorf("got from Check, want nothing:\n%v", complaints)
	}
	names := oracle.Names(t, store)
	for _, pin := range pins {
		if !slices.Contains(names, pin) {
			t.Errorf("got the names %q, want %s too", names, pin)
		}
		if diff := cmp.Diff(want[pin], fixtures.Tree(t, oracle.Mount(t, store, pin))); diff != "" {
			t.Errorf("%s (-full store +base and deltas):\n%s", pin, diff)
		}
	}
}

// trees returns the trees of images in one full store.
func trees(t *testing.T, pins ...string) map[string]map[string]string {
	t.Helper()
	store := oracle.Open(t, "", mount(t, full(t, pins...))...)
	all := map[string]map[string]string{}
	for _, pin := range pins {
		all[pin] = fixtures.Tree(t, oracle.Mount(t, store, pin))
	}
	return all
}

// The images of a base with a chain of two deltas are those of one store with all images. So are the
// images of the base with a delta that only needs the base.
func TestDeltasEqualAFullStore(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 3)
	want := trees(t, slices.Concat(pins...)...)
	base := full(t, pins[0]...)
	chain := []string{base}
	for n, release := range pins[1:] {
		next, r := delta(t, chain[len(chain)-1:], release...)
		if r.New.Layers != 3 || r.Totals.Layers != 2+3*(n+2) {
			t.Errorf("release %d: got %d new of %d layers, want 3 of %d", n+2, r.New.Layers, r.Totals.Layers, 2+3*(n+2))
		}
		chain = append(chain, next)
		alone, r := delta(t, []string{base}, release...)
		if r.New.Layers != 3*(n+1) {
			t.Errorf("release %d over the first: got %d layers, want %d", n+2, r.New.Layers, 3*(n+1))
		}
		checkStores(t, want, mount(t, alone, base), release...)
	}
	roots := mount(t, chain...)
	checkStores(t, want, roots, slices.Concat(pins...)...)
	slices.Reverse(roots)
	checkStores(t, want, roots, slices.Concat(pins...)...)
}

// A delta for several bases has the layers that any of them lacks, and can be mounted with each.
func TestDeltaForSeveralBases(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 3)
	want := trees(t, pins[2]...)
	old, newer := full(t, pins[0]...), full(t, pins[1]...)
	union, r := delta(t, []string{newer, old, filepath.Join(old, layout.LockFile)}, pins[2]...)
	if r.New.Layers != 6 || len(r.Bases) != 3 {
		t.Errorf("got %d new layers and the bases %v, want 6 layers and 3 bases", r.New.Layers, r.Bases)
	}
	other, _ := delta(t, []string{filepath.Join(old, layout.LockFile), old, newer}, pins[2]...)
	sameFolders(t, union, other)
	for _, base := range []string{old, newer} {
		checkStores(t, want, mount(t, base, union), pins[2]...)
		if _, err := verify.Release(t.Context(), union, verify.Options{Bases: []string{base}}); err != nil {
			t.Errorf("got %v with the base %s, want no error", err, base)
		}
	}
}

// sameFolders compares all files.
func sameFolders(t *testing.T, a, b string) {
	t.Helper()
	if diff := cmp.Diff(fixtures.Tree(t, a), fixtures.Tree(t, b)); diff != "" {
		t.Errorf("(-%s +%s):\n%s", a, b, diff)
	}
}

// A delta is small and reproducible, and its description lists the layers that it needs. No layer of a
// base is fetched.
func TestDeltaHasOnlyNewLayers(t *testing.T) {
	t.Parallel()
	_, access, pins := series(t, 2)
	base := full(t, pins[0]...)
	lock := appliance.Lock(t, base)
	access.Take()
	out, r := delta(t, []string{base}, pins[1]...)
	asked := access.Take()
	for _, img := range lock.Images {
		for _, l := range img.Layers {
			if slices.ContainsFunc(asked, func(r fixtures.Request) bool {
				return strings.HasSuffix(r.Path, l.Digest.String())
			}) {
				t.Errorf("got a request for layer %s of the base, want none", l.Digest)
			}
		}
	}
	if len(fixtures.Blobs(asked)) == 0 {
		t.Error("got no request for a blob, want those for new layers")
	}
	files := slices.Sorted(maps.Keys(fixtures.Tree(t, out)))
	if diff := cmp.Diff([]string{".", "RUNBOOK.md", "SHA256SUMS", "delta.json", "delta.roothash", "delta.squashfs",
		"kubelet-allowlist.conf", "manifests", "manifests/always", "manifests/always/mutate.yaml",
		"manifests/always/names.yaml", "manifests/always/warn.yaml",
		"manifests/worker-sample.yaml", "pinbox.lock.json", "provenance.json", "runbook.sh"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	baseStore, err := os.Stat(filepath.Join(base, layout.StoreFile))
	if err != nil || r.StoreSize > 40_000 || r.StoreSize > baseStore.Size()/10 {
		t.Errorf("got a delta of %d bytes, %v; want at most 40,000 and a tenth of %v", r.StoreSize, err, baseStore)
	}
	t.Logf("%d bytes over %d", r.StoreSize, baseStore.Size())
	again, _ := delta(t, []string{base}, pins[1]...)
	sameFolders(t, out, again)
	checkDescription(t, out, base)
}

// checkDescription checks the description of a delta of the second release with the first as base.
func checkDescription(t *testing.T, out, base string) {
	t.Helper()
	f, err := os.Open(filepath.Join(out, layout.DeltaFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := pinset.DecodeDelta(f)
	if err != nil {
		t.Fatal(err)
	}
	below := map[string]bool{}
	for _, img := range appliance.Lock(t, base).Images {
		parent := ""
		for _, l := range img.Layers {
			parent = layout.LayerID(parent, l.DiffID)
			below[parent] = true
		}
	}
	if len(d.Bases) != 1 || d.Bases[0].Store == "" || len(d.Needs) != 5 {
		t.Errorf("got the description %+v, want one base with a store, and 5 layers", d)
	}
	for _, n := range d.Needs {
		if !below[n.Layer] || n.Link != layout.LinkName(n.Layer) {
			t.Errorf("got %+v, want a layer of the base and its short name", n)
		}
	}
}

// A delta of images whose layers the base has contains only records.
func TestDeltaWithoutANewLayer(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 1)
	base := full(t, pins[0]...)
	out, r := delta(t, []string{base}, pins[0][1:]...)
	if *r.New != (builder.Missing{}) || r.StoreSize > 20_000 {
		t.Errorf("got %+v in %d bytes, want no layers in at most 20,000 bytes", r.New, r.StoreSize)
	}
	checkStores(t, trees(t, pins[0]...), mount(t, base, out), pins[0]...)
	if _, err := verify.Release(t.Context(), out, verify.Options{Bases: []string{base}}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// rewriteLock writes a changed copy of the lock of an appliance.
func rewriteLock(t *testing.T, dir string, change func(*pinset.Lock)) string {
	t.Helper()
	lock := appliance.Lock(t, dir)
	change(&lock)
	var b bytes.Buffer
	if err := lock.Encode(&b); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "lock.json")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func eachLayer(lock *pinset.Lock, change func(*pinset.LockedLayer)) {
	for i := range lock.Images {
		for n := range lock.Images[i].Layers {
			change(lock.Images[i].Layers[n])
		}
	}
}

// A refused base leaves no output. The tests of package base list the bases that are refused.
func TestRefusedBases(t *testing.T) {
	t.Parallel()
	_, _, pins := series(t, 2)
	noRoots := rewriteLock(t, full(t, pins[0]...), func(l *pinset.Lock) {
		eachLayer(l, func(l *pinset.LockedLayer) { l.RootAttributes = "" })
	})
	for name, c := range map[string]struct {
		from []string
		want error
		text string
	}{
		"no base":                {nil, builder.ErrNoBase, "what nodes have"},
		"missing folder":         {[]string{"/no/such/folder"}, os.ErrNotExist, "/no/such/folder"},
		"unknown root directory": {[]string{noRoots}, compose.ErrUnknownRootAttributes, "series/"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sample.Set("worker", pins[1]...))
			o.From = c.from
			if _, err := builder.Delta(t.Context(), o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
			if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v for the output, want no file", err)
			}
		})
	}
}

// A delta without contents of its bases reads nothing of their stores, and warns of one that is cut short.
func TestDeltaOverAnIncompleteStore(t *testing.T) {
	t.Parallel()
	_, _, pins := series(t, 2)
	base := full(t, pins[0]...)
	if err := os.Truncate(filepath.Join(base, layout.StoreFile), 5000); err != nil {
		t.Fatal(err)
	}
	_, r := delta(t, []string{base}, pins[1]...)
	want := "store.squashfs is incomplete, with 5000 bytes of "
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
		t.Errorf("got the warnings %q, want %q", r.Warnings, want)
	}
}

// A medium can be a base as the folder that it was made of.
func TestDeltaOverAMedium(t *testing.T) {
	t.Parallel()
	_, _, pins := series(t, 3)
	second, _ := delta(t, []string{full(t, pins[0]...)}, pins[1]...)
	third, _ := delta(t, []string{second}, pins[2]...)
	medium := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: third, Out: medium}); err != nil {
		t.Fatal(err)
	}
	overFolder, _ := delta(t, []string{third}, pins[1]...)
	overMedium, _ := delta(t, []string{medium}, pins[1]...)
	sameFolders(t, overFolder, overMedium)
}
