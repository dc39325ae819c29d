package builder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
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
			parent = compose.LayerID(parent, l.DiffID)
			below[parent] = true
		}
	}
	if d.Name != "appliance" || len(d.Bases) != 1 || d.Bases[0].Store == "" || len(d.Needs) != 5 {
		t.Errorf("%+v", d)
	}
	for _, n := range d.Needs {
		if !below[n.Layer] || n.Link != compose.LinkName(n.Layer) {
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

func TestBasesThatCarryNoDelta(t *testing.T) {
	_, _, pins := series(t, 2)
	old := whole(t, pins[0]...)
	damaged := filepath.Join(t.TempDir(), "damaged")
	fixtures.Run(t, "cp", "-r", old, damaged)
	fixtures.Run(t, "sed", "-i", "s/pause@/paus@/", filepath.Join(damaged, artifact.LockFile))
	folder := t.TempDir()
	for name, content := range map[string]string{
		artifact.SumsFile: strings.Repeat("0", 64) + "  store/overlay-images/images.json\n", artifact.LockFile: "{}",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		from []string
		want error
		says string
	}{
		"none":             {nil, builder.ErrNoBase, "what nodes have"},
		"not there":        {[]string{"/no/such/folder"}, os.ErrNotExist, "/no/such/folder"},
		"no appliance":     {[]string{t.TempDir()}, artifact.ErrNotAppliance, ""},
		"no lock":          {[]string{filepath.Join(old, artifact.IgnitionFile)}, pinset.ErrBadLock, "config.ign"},
		"changed lock":     {[]string{damaged}, artifact.ErrVerify, artifact.LockFile},
		"format dir":       {[]string{folder}, base.ErrUnsuitable, "squashfs and tar"},
		"the store itself": {[]string{filepath.Join(old, artifact.StoreFile)}, artifact.ErrNotAppliance, "and no lock"},
		"other platform": {
			[]string{rewriteLock(t, old, func(l *pinset.Lock) { l.Platform = "linux/arm64" })}, base.ErrUnsuitable,
			"it is for linux/arm64",
		},
		"bad digest": {
			[]string{rewriteLock(t, old, func(l *pinset.Lock) { eachLayer(l, func(l *pinset.LockedLayer) { l.DiffID = "x" }) })},
			pinset.ErrBadLock, "diffID",
		},
		"unknown root": {
			[]string{rewriteLock(t, old, func(l *pinset.Lock) { eachLayer(l, func(l *pinset.LockedLayer) { l.Root = "" }) })},
			compose.ErrUnknownRoot, "series/",
		},
		"bad root": {
			[]string{rewriteLock(t, old, func(l *pinset.Lock) {
				eachLayer(l, func(l *pinset.LockedLayer) { l.Root = "99:0" })
			})}, pinset.ErrBadLock, "0755:0:0",
		},
	} {
		o := options(t, sample.Set("worker", pins[1]...))
		o.From = c.from
		_, err := builder.Delta(t.Context(), o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was made: %v", name, err)
		}
	}
}

// Base and delta are found whole, from folders and from ISOs, and whatever is missing or
// changed is found too.
func TestVerifyDelta(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 3)
	base := whole(t, pins[0]...)
	second, _ := delta(t, []string{base}, pins[1]...)
	third, _ := delta(t, []string{second}, pins[2]...)
	medium := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: third, Out: medium}); err != nil {
		t.Fatal(err)
	}
	overFolder, _ := delta(t, []string{third}, pins[1]...)
	overMedium, _ := delta(t, []string{medium}, pins[1]...)
	sameFolders(t, overFolder, overMedium)
	nothingStays(t)
	for name, c := range map[string]struct {
		delta string
		bases []string
		says  string
		open  int // what is not checked
	}{
		"chain":                 {third, []string{second, base}, "", 0},
		"medium":                {medium, []string{base, second}, "", 0},
		"no base":               {third, nil, "", 0},
		"lock alone":            {third, []string{second, filepath.Join(base, artifact.LockFile)}, "", 1},
		"base missing":          {third, []string{second}, "is in none of the bases", 0},
		"delta between missing": {third, []string{base}, "is in none of the bases", 0},
		"medium without base":   {medium, []string{second}, "is in none of the bases", 0},
		"changed layer":         {third, []string{second, tampered(t, base)}, "file integrity checksum failed", 0},
		"changed delta":         {tampered(t, third), []string{second, base}, "file integrity checksum failed", 0},
		"no delta":              {base, []string{base}, "not a delta", 0},
	} {
		v, err := verify.WithBases(t.Context(), c.delta, c.bases, progress.Hooks{})
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v", name, err)
		case c.says == "" && (len(v.Unchecked) != c.open || v.Totals.Images != 4):
			t.Errorf("%s: %+v", name, v)
		case c.says == "" && c.bases != nil && (v.Delta.Layers != 3 || v.Delta.Needs != 8 ||
			v.Delta.Mounted != (c.open == 0)):
			t.Errorf("%s: %+v", name, v.Delta)
		}
	}
}

// nothingStays makes a folder for what is temporary, which must be empty, with nothing
// mounted below, when the test ends.
func nothingStays(t *testing.T) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Cleanup(func() {
		if mounts := fixtures.Run(t, "cat", "/proc/self/mountinfo"); strings.Contains(mounts, tmp) {
			t.Errorf("mounts are left:\n%s", mounts)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
	})
}

// However the check ends, nothing stays.
func TestInterruptedVerifyLeavesNothing(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 2)
	base := whole(t, pins[0]...)
	out, _ := delta(t, []string{base}, pins[1]...)
	nothingStays(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := verify.WithBases(ctx, out, []string{base}, progress.Hooks{Step: func(name string, _ int64, _ progress.Unit) {
		if name == "check layers" {
			go func() {
				defer stop()
				for begun := []string(nil); len(begun) == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
					begun, _ = filepath.Glob(filepath.Join(os.TempDir(), "*")) // the pattern is a good one
				}
			}()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// repacked copies a folder, and lets change at the copy and at the tree of its store.
func repacked(t *testing.T, dir string, change func(out, tree string)) string {
	t.Helper()
	out, tree := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "tree")
	fixtures.Run(t, "cp", "-r", dir, out)
	stores, err := filepath.Glob(filepath.Join(out, "*.squashfs"))
	if err != nil || len(stores) != 1 {
		t.Fatal(stores, err)
	}
	fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-dest", tree, stores[0])
	change(out, tree)
	if err := os.Remove(stores[0]); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mksquashfs", tree, stores[0], "-quiet", "-no-progress")
	fixtures.Run(t, "sh", "-c", "cd "+out+" && find * -type f ! -name SHA256SUMS | sort | xargs sha256sum > SHA256SUMS")
	return out
}

// tampered changes a byte of a file in a store so that only somebody who knows what was
// in the layer can tell.
func tampered(t *testing.T, dir string) string {
	t.Helper()
	return repacked(t, dir, func(_, tree string) {
		files, err := filepath.Glob(filepath.Join(tree, "overlay/*/diff/release"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		fi, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		content[0] ^= 1
		if err := errors.Join(os.WriteFile(files[0], content, 0o644),
			os.Chtimes(files[0], fi.ModTime(), fi.ModTime())); err != nil {
			t.Fatal(err)
		}
	})
}

// A delta that is not what its lock says is found without a base.
func TestVerifyFindsAWrongDescription(t *testing.T) {
	fixtures.NeedRoot(t)
	_, _, pins := series(t, 2)
	good, _ := delta(t, []string{whole(t, pins[0]...)}, pins[1]...)
	for name, c := range map[string]struct {
		change func(*pinset.Delta)
		files  []string // that have it
		says   string
	}{
		"unknown need": {
			func(d *pinset.Delta) { d.Needs[4].Layer = strings.Repeat("f", 64) }, []string{"out", "tree/pinbox"},
			"which no image of the lock has",
		},
		"need left out": {
			func(d *pinset.Delta) { d.Needs = d.Needs[:0] }, []string{"out", "tree/pinbox"},
			"the store has 3 layers, and not the 8",
		},
		"wrong link": {
			func(d *pinset.Delta) { d.Needs[0].Link = strings.Repeat("X", 26) }, []string{"out", "tree/pinbox"},
			`"XXXXXXXXXXXXXXXXXXXXXXXXXX" as the short name`,
		},
		"not sorted":      {func(d *pinset.Delta) { slices.Reverse(d.Needs) }, []string{"out", "tree/pinbox"}, "not sorted"},
		"unknown version": {func(d *pinset.Delta) { d.Version = 9 }, []string{"out", "tree/pinbox"}, "version 9"},
		"folder alone": {
			func(d *pinset.Delta) { d.Name = "other" }, []string{"out"}, "delta.squashfs has another delta.json",
		},
		"store alone": {
			func(d *pinset.Delta) { d.Name = "other" }, []string{"tree/pinbox"}, "delta.squashfs has another delta.json",
		},
	} {
		bad := repacked(t, good, func(out, tree string) {
			content, err := os.ReadFile(filepath.Join(out, artifact.DeltaFile))
			if err != nil {
				t.Fatal(err)
			}
			var d pinset.Delta
			if err := json.Unmarshal(content, &d); err != nil {
				t.Fatal(err)
			}
			c.change(&d)
			var b bytes.Buffer
			if err := d.Encode(&b); err != nil {
				t.Fatal(err)
			}
			for _, file := range c.files {
				file = strings.NewReplacer("out", out, "tree", tree).Replace(file)
				if err := os.WriteFile(filepath.Join(file, artifact.DeltaFile), b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
		if _, err := verify.Artifact(t.Context(), bad, progress.Hooks{}); !errors.Is(err, artifact.ErrVerify) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unnamed := repacked(t, good, func(_, tree string) {
		fixtures.Run(t, "sed", "-i", "s/series.app@/series-app@/", filepath.Join(tree, "overlay-images/images.json"))
	})
	if _, err := verify.Artifact(t.Context(), unnamed, progress.Hooks{}); !errors.Is(err, artifact.ErrVerify) ||
		!strings.Contains(err.Error(), "no record of "+pins[1][1]) {
		t.Error(err)
	}
}
