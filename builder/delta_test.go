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
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
	storelayout "github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// whole builds an appliance of images, and gives its folder.
func whole(t *testing.T, pins ...string) string {
	t.Helper()
	o := options(t, sample.Set("worker", pins...))
	build(t, o)
	return o.Out
}

// delta builds one of images over what nodes have, and gives its folder.
func delta(t *testing.T, from []string, pins ...string) (string, builder.DeltaResult) {
	t.Helper()
	o := options(t, sample.Set("worker", pins...))
	o.From = from
	r, err := builder.Delta(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return o.Out, r
}

// stack mounts what folders hold, as a node does.
func stack(t *testing.T, folders ...string) (roots []string) {
	t.Helper()
	for _, dir := range folders {
		store := filepath.Join(dir, artifact.StoreFile)
		if _, err := os.Stat(store); err != nil {
			store = filepath.Join(dir, artifact.DeltaStoreFile)
		}
		roots = append(roots, fixtures.Mount(t, store))
	}
	return roots
}

// checkStack has the library judge stores that stand together, and compares the trees
// of images with those of a full store.
func checkStack(t *testing.T, full map[string]map[string]string, roots []string, pins ...string) {
	t.Helper()
	store := oracle.Open(t, "", roots...)
	if complaints := oracle.Check(t, store); len(complaints) > 0 {
		t.Errorf("Check complains:\n%v", complaints)
	}
	names := oracle.Names(t, store)
	for _, pin := range pins {
		if !slices.Contains(names, pin) {
			t.Errorf("%s is not there", pin)
		}
		if diff := cmp.Diff(full[pin], fixtures.Tree(t, oracle.Mount(t, store, pin))); diff != "" {
			t.Errorf("%s (-full store +stores that stand together):\n%s", pin, diff)
		}
	}
}

// trees of all images in one full store.
func trees(t *testing.T, pins ...string) map[string]map[string]string {
	t.Helper()
	store := oracle.Open(t, "", stack(t, whole(t, pins...))...)
	all := map[string]map[string]string{}
	for _, pin := range pins {
		all[pin] = fixtures.Tree(t, oracle.Mount(t, store, pin))
	}
	return all
}

// Five releases, four of them as deltas over each other: whatever stands together is
// what one store with all images is. Beside each delta of a chain there is one over the
// first release alone.
func TestDeltasEqualAFullStore(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 5)
	full := trees(t, slices.Concat(pins...)...)
	base := whole(t, pins[0]...)
	chain := []string{base}
	for n, release := range pins[1:] {
		next, r := delta(t, chain[len(chain)-1:], release...)
		if r.New.Layers != 3 || r.Totals.Layers != 2+3*(n+2) {
			t.Errorf("release %d: %d new of %d layers", n+2, r.New.Layers, r.Totals.Layers)
		}
		chain = append(chain, next)
		alone, r := delta(t, []string{base}, release...)
		if r.New.Layers != 3*(n+1) {
			t.Errorf("release %d over the first: %d layers", n+2, r.New.Layers)
		}
		checkStack(t, full, stack(t, alone, base), release...)
	}
	roots := stack(t, chain...)
	checkStack(t, full, roots, slices.Concat(pins...)...)
	slices.Reverse(roots)
	checkStack(t, full, roots, slices.Concat(pins...)...)
}

// With several bases a delta has what any of them lacks, and stands on each.
func TestDeltaForSeveralBases(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 3)
	full := trees(t, pins[2]...)
	old, newer := whole(t, pins[0]...), whole(t, pins[1]...)
	union, r := delta(t, []string{newer, old, filepath.Join(old, artifact.LockFile)}, pins[2]...)
	if r.New.Layers != 6 || len(r.Bases) != 3 {
		t.Errorf("%d new layers, bases %v", r.New.Layers, r.Bases)
	}
	other, _ := delta(t, []string{filepath.Join(old, artifact.LockFile), old, newer}, pins[2]...)
	sameFolders(t, union, other)
	for _, base := range []string{old, newer} {
		checkStack(t, full, stack(t, base, union), pins[2]...)
		if _, err := verify.WithBases(t.Context(), union, []string{base}, progress.Hooks{}); err != nil {
			t.Error(err)
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

// A delta is small, fetches nothing that a base has, and is the same every time. Its
// description says what it stands on.
func TestDeltaHoldsOnlyWhatIsNew(t *testing.T) {
	_, access, pins := series(t, 2)
	base := whole(t, pins[0]...)
	lock := appliance.Lock(t, base)
	access.Take()
	out, r := delta(t, []string{base}, pins[1]...)
	asked := access.Take()
	for _, img := range lock.Images {
		for _, l := range img.Layers {
			if slices.ContainsFunc(asked, func(r fixtures.Request) bool {
				return strings.HasSuffix(r.Path, l.Digest.String())
			}) {
				t.Errorf("layer %s of the base was fetched", l.Digest)
			}
		}
	}
	if len(fixtures.Blobs(asked)) == 0 {
		t.Error("nothing was fetched at all")
	}
	files := slices.Sorted(maps.Keys(fixtures.Tree(t, out)))
	if diff := cmp.Diff([]string{".", "SHA256SUMS", "delta.json", "delta.squashfs", "manifests",
		"manifests/worker-sample.yaml", "pinbox.lock.json"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	full, err := os.Stat(filepath.Join(base, artifact.StoreFile))
	if err != nil || r.StoreSize > 40_000 || r.StoreSize > full.Size()/10 {
		t.Errorf("%v: a delta of %d bytes over a store of %d", err, r.StoreSize, full.Size())
	}
	t.Logf("%d bytes over %d", r.StoreSize, full.Size())
	again, _ := delta(t, []string{base}, pins[1]...)
	sameFolders(t, out, again)
	checkDescription(t, out, base)
}

func checkDescription(t *testing.T, out, base string) {
	t.Helper()
	f, err := os.Open(filepath.Join(out, artifact.DeltaFile))
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
			parent = storelayout.LayerID(parent, l.DiffID)
			below[parent] = true
		}
	}
	if d.Name != "appliance" || len(d.Bases) != 1 || d.Bases[0].Store == "" || len(d.Needs) != 5 {
		t.Errorf("%+v", d)
	}
	for _, n := range d.Needs {
		if !below[n.Layer] || n.Link != storelayout.LinkName(n.Layer) {
			t.Errorf("%+v", n)
		}
	}
}

// What is in the base already costs a record, under a new name too.
func TestDeltaWithoutANewLayer(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 1)
	base := whole(t, pins[0]...)
	out, r := delta(t, []string{base}, pins[0][1:]...)
	if r.New != (builder.Missing{}) || r.StoreSize > 20_000 {
		t.Errorf("%+v in %d bytes", r.New, r.StoreSize)
	}
	checkStack(t, trees(t, pins[0]...), stack(t, base, out), pins[0]...)
	if _, err := verify.WithBases(t.Context(), out, []string{base}, progress.Hooks{}); err != nil {
		t.Error(err)
	}
}

// A store that was a tar carries deltas like one that is mounted.
func TestDeltaOverATar(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 2)
	o := options(t, sample.Set("worker", pins[0]...))
	o.Appliance.Spec.Store.Format = format.Tar
	build(t, o)
	base := t.TempDir()
	appliance.Extract(t, filepath.Join(o.Out, format.TarFile), base)
	out, _ := delta(t, []string{o.Out}, pins[1]...)
	checkStack(t, trees(t, slices.Concat(pins...)...), append(stack(t, out), base), slices.Concat(pins...)...)
	v, err := verify.WithBases(t.Context(), out, []string{o.Out}, progress.Hooks{})
	if err != nil || len(v.Unchecked) != 1 || v.Delta.Mounted {
		t.Errorf("%+v, %v", v, err)
	}
}

// rewriteLock changes a lock, into a file of its own.
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
			change(&lock.Images[i].Layers[n])
		}
	}
}

// Package base tests which bases it refuses; here nothing may be left of the build.
func TestUnsuitableBases(t *testing.T) {
	_, _, pins := series(t, 2)
	noRoots := rewriteLock(t, whole(t, pins[0]...), func(l *pinset.Lock) {
		eachLayer(l, func(l *pinset.LockedLayer) { l.RootAttributes = "" })
	})
	for name, c := range map[string]struct {
		from []string
		want error
		text string
	}{
		"no base":                {nil, builder.ErrNoBase, "what nodes have"},
		"no file":                {[]string{"/no/such/folder"}, os.ErrNotExist, "/no/such/folder"},
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

// A medium is what the folder is that it was made of.
func TestDeltaOverAMedium(t *testing.T) {
	_, _, pins := series(t, 3)
	second, _ := delta(t, []string{whole(t, pins[0]...)}, pins[1]...)
	third, _ := delta(t, []string{second}, pins[2]...)
	medium := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: third, Out: medium}); err != nil {
		t.Fatal(err)
	}
	overFolder, _ := delta(t, []string{third}, pins[1]...)
	overMedium, _ := delta(t, []string{medium}, pins[1]...)
	sameFolders(t, overFolder, overMedium)
}
