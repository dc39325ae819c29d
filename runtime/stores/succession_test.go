package stores_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// numbered is the delta n as a release of the appliance "small".
func numbered(n int, number int64) testStore {
	return testStore{n: n, release: pinset.ReleaseID{Name: "small", Number: number}}
}

// A release that is not newer than those of the node becomes current only if an operator forces it, and
// so does one of another appliance. What is refused leaves nothing behind.
func TestOlderReleaseIsRefused(t *testing.T) {
	other := testStore{n: 2, release: pinset.ReleaseID{Name: "other", Number: 9}}
	byHand, auto, force := stores.AttachOptions{}, stores.AttachOptions{Auto: true}, stores.AttachOptions{Force: true}
	notNewer, otherAppliance := pinset.ErrNotNewer, pinset.ErrOtherAppliance
	for name, c := range map[string]struct {
		attached, next testStore
		o              stores.AttachOptions
		want           error
	}{
		"newer":                           {numbered(1, 7), numbered(2, 8), byHand, nil},
		"newer, by itself":                {numbered(1, 7), numbered(2, 8), auto, nil},
		"older":                           {numbered(1, 7), numbered(2, 6), byHand, notNewer},
		"older, by itself":                {numbered(1, 7), numbered(2, 6), auto, notNewer},
		"older, forced":                   {numbered(1, 7), numbered(2, 6), force, nil},
		"the same number":                 {numbered(1, 7), numbered(2, 7), byHand, notNewer},
		"the same, by itself":             {numbered(1, 7), numbered(2, 7), auto, notNewer},
		"no number":                       {numbered(1, 7), numbered(2, 0), byHand, notNewer},
		"no number, by itself":            {numbered(1, 7), numbered(2, 0), auto, notNewer},
		"another appliance":               {numbered(1, 7), other, byHand, otherAppliance},
		"another appliance, by itself":    {numbered(1, 7), other, auto, otherAppliance},
		"another appliance, without sets": {numbered(1, 7), other, stores.AttachOptions{KeepSets: true}, otherAppliance},
		"another appliance, forced":       {numbered(1, 7), other, force, nil},
		"force does not count by itself": {
			numbered(1, 7), numbered(2, 6), stores.AttachOptions{Auto: true, Force: true}, notNewer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, numbered(0, 5))
			d.attach(stores.AttachOptions{Source: c.attached.folder(t), Force: true})
			c.o.Source = c.next.folder(t)
			_, err := d.Attach(t.Context(), c.o)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.want == nil {
				d.wantSet(2)
				d.wantMounted(1, 2)
				return
			}
			d.wantSet(1)
			d.wantRefused(c.o.Auto, c.next.release)
		})
	}
}

// Releases without numbers have no order. Bug: an old store with a good signature became current by itself.
func TestReleasesWithoutNumbers(t *testing.T) {
	none := pinset.ReleaseID{}
	node, next, newer := numbered(0, 0).id(), numbered(2, 0), numbered(2, 8)
	auto, byHand, noNumber := stores.AttachOptions{Auto: true}, stores.AttachOptions{}, pinset.ErrNoNumber
	for name, c := range map[string]struct {
		node      pinset.ReleaseID
		next      testStore
		o         stores.AttachOptions
		want      error
		unordered bool
	}{
		"by itself":                   {node, next, auto, noNumber, false},
		"by itself, with force":       {node, next, stores.AttachOptions{Auto: true, Force: true}, noNumber, false},
		"by itself, without sets":     {node, next, stores.AttachOptions{Auto: true, KeepSets: true}, noNumber, false},
		"by itself, unknown node":     {none, next, auto, noNumber, false},
		"by itself, with a number":    {node, newer, auto, nil, false},
		"by hand":                     {node, next, byHand, nil, true},
		"by hand, with a number":      {node, newer, byHand, nil, false},
		"by hand, without sets":       {node, next, stores.AttachOptions{KeepSets: true}, nil, false},
		"by hand, forced over one":    {numbered(0, 5).id(), next, stores.AttachOptions{Force: true}, nil, false},
		"by hand, to an unknown node": {none, next, byHand, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, numbered(0, 0))
			d.Appliance = c.node
			c.o.Source = c.next.folder(t)
			a, err := d.Attach(t.Context(), c.o)
			if !errors.Is(err, c.want) || a.Unordered != c.unordered {
				t.Errorf("got %v, unordered: %v, want %v, %v", err, a.Unordered, c.want, c.unordered)
			}
			if c.want != nil {
				d.wantSet(0)
				if left, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(left) > 0 {
					t.Errorf("got the files %v, %v, want none", left, err)
				}
				return
			}
			d.wantMounted(2)
			again, err := d.Attach(t.Context(), c.o)
			if err != nil || again.Unordered {
				t.Errorf("again: got %v, unordered: %v, want that nothing changes", err, again.Unordered)
			}
		})
	}
}

// The same for a release that the node keeps.
func TestKeptReleaseWithoutNumber(t *testing.T) {
	d := newNode(t, numbered(0, 0))
	first := numbered(1, 0).folder(t)
	d.attach(stores.AttachOptions{Source: first})
	d.attach(stores.AttachOptions{Source: numbered(2, 0).folder(t)})
	a, err := d.Attach(t.Context(), stores.AttachOptions{Source: first})
	if err != nil || !a.Found || !a.Unordered {
		t.Errorf("got %+v, %v, want a store that is found, and unordered", a, err)
	}
	d.wantSet(1)
}

// wantRefused checks that one store is attached, and that the status has the one that was plugged in, if any.
func (d *testNode) wantRefused(auto bool, id pinset.ReleaseID) {
	d.t.Helper()
	all, err := d.Status(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	refused := slices.IndexFunc(all, func(s stores.Status) bool { return s.Refused })
	if (refused >= 0) != auto || auto && (all[refused].ReleaseID != id || all[refused].Problem == nil) {
		d.t.Errorf("got %+v, want the refused store %v among them: %v", all, id, auto)
	}
	if left, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(left) != 1 {
		d.t.Errorf("got the files %v, %v, want that of the attached store", left, err)
	}
}

// A rollback is an operator's decision: nothing undoes it by itself, and no medium brings in a release from
// between the two.
func TestRollbackIsNotUndone(t *testing.T) {
	d := newNode(t, numbered(0, 5))
	newest := numbered(1, 8).folder(t)
	d.attach(stores.AttachOptions{Source: newest})
	d.rollback(0)
	if err := d.reconcile(); err != nil {
		t.Fatal(err)
	}
	d.wantSet(0)
	for name, o := range map[string]stores.AttachOptions{
		"between":  {Source: numbered(2, 6).folder(t), Auto: true},
		"the same": {Source: numbered(3, 8).folder(t), Auto: true},
	} {
		if _, err := d.Attach(t.Context(), o); !errors.Is(err, pinset.ErrNotNewer) {
			t.Errorf("%s: got %v, want %v", name, err, pinset.ErrNotNewer)
		}
	}
	if a, err := d.Attach(t.Context(), stores.AttachOptions{Source: newest, Auto: true}); err != nil || !a.Found {
		t.Errorf("got %+v, %v, want that the release which was rolled back is found", a, err)
	}
	d.wantSet(0)
	d.attach(stores.AttachOptions{Source: newest})
	d.wantSet(1)
	d.rollback(0)
	d.attach(stores.AttachOptions{Source: numbered(2, 9).folder(t), Auto: true})
	d.wantSet(2)
}

// The releases that a node keeps become current again only by a rollback, or by force.
func TestKeptReleaseIsRefused(t *testing.T) {
	d := newNode(t, numbered(0, 5))
	own, first := numbered(0, 5).folder(t), numbered(1, 7).folder(t)
	d.attach(stores.AttachOptions{Source: first})
	d.attach(stores.AttachOptions{Source: numbered(2, 8).folder(t)})
	for name, folder := range map[string]string{"the appliance's own": own, "the previous one": first} {
		if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder}); !errors.Is(err, pinset.ErrNotNewer) {
			t.Errorf("%s: got %v, want %v", name, err, pinset.ErrNotNewer)
		}
		if a, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder, Auto: true}); err != nil || !a.Found {
			t.Errorf("%s, by itself: got %+v, %v, want that it is found", name, a, err)
		}
	}
	d.wantSet(2)
	d.rollback(1)
	d.attach(stores.AttachOptions{Source: own, Force: true})
	d.wantSet(0)
}

// The first store that is attached to a node without an appliance says which one it has.
func TestNodeWithoutAnAppliance(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.Appliance = pinset.ReleaseID{}
	d.attach(stores.AttachOptions{Source: numbered(1, 7).folder(t)})
	other := testStore{n: 2, release: pinset.ReleaseID{Name: "other", Number: 9}}.folder(t)
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: other}); !errors.Is(err, pinset.ErrOtherAppliance) {
		t.Errorf("got %v, want %v", err, pinset.ErrOtherAppliance)
	}
	d.wantMounted(1)
}

// A store with the digest of the appliance's own is not read, while that is mounted and whole.
func TestOwnStoreIsNotCopied(t *testing.T) {
	d := newNode(t, numbered(0, 5))
	folder := numbered(0, 5).folder(t)
	content, err := os.ReadFile(filepath.Join(folder, "delta.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	d.OwnStore = digest.FromBytes(content)
	read := false
	o := stores.AttachOptions{Source: folder, Progress: progress(func(stores.Step, int64, int64) { read = true })}
	a, err := d.Attach(t.Context(), o)
	if err != nil || !a.Appliance || a.Store.Slot != "0" || a.Store.Images != 1 || read {
		t.Errorf("got %+v, %v, read: %v, want the appliance's own, not read", a, err, read)
	}
	fixtures.Run(t, "umount", d.Slots[0])
	if a, err = d.Attach(t.Context(), o); err != nil || a.Appliance || a.Store.Slot != "1" || !read {
		t.Errorf("while it is not mounted: got %+v, %v, read: %v, want a copy", a, err, read)
	}
}

// While the release of the appliance's own store is current, the status says if that store is not mounted, also
// before anything was attached. Another full store does not need it.
func TestOwnStoreThatIsNotMounted(t *testing.T) {
	d := newNode(t, numbered(0, 5))
	d.OwnStore = digest.FromString("store")
	problems := func() (problems []error) {
		t.Helper()
		passed, err := d.Reconcile(t.Context(), nil)
		shown, statusErr := d.Status(t.Context())
		if err != nil || statusErr != nil || len(passed) != len(shown) {
			t.Fatalf("got %+v, %v and %+v, %v, want the same of a pass and of the status", passed, err, shown, statusErr)
		}
		for _, s := range shown {
			if s.Problem != nil {
				problems = append(problems, s.Problem)
			}
		}
		return problems
	}
	if got := problems(); len(got) > 0 {
		t.Errorf("while it is mounted: got %v", got)
	}
	fixtures.Run(t, "umount", d.Slots[0])
	if got := problems(); len(got) != 1 || !strings.Contains(got[0].Error(), "own store is not mounted") {
		t.Errorf("got %v, want that the own store is not mounted", got)
	}
	if _, err := os.Stat(d.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got the folder of the state, %v, want none", err)
	}
	d.attach(stores.AttachOptions{Source: numbered(5, 6).folder(t)})
	if got := problems(); len(got) > 0 {
		t.Errorf("with another full store: got %v", got)
	}
	d.rollback(0)
	if got := problems(); len(got) != 1 {
		t.Errorf("after a rollback: got %v, want that the own store is not mounted", got)
	}
}
