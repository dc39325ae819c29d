package stores_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/pinset"
)

// rollback makes the previous release current and checks its set.
func (d *testNode) rollback(to int) {
	d.t.Helper()
	if _, err := d.Rollback(d.t.Context(), ""); err != nil {
		d.t.Error(err)
	}
	d.wantSet(to)
}

// reboot unmounts all stores but the appliance's own.
func (d *testNode) reboot() {
	d.t.Helper()
	for _, slot := range d.Slots[1:] {
		err := syscall.Unmount(slot, syscall.MNT_DETACH)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			d.t.Fatal(err)
		}
	}
}

// reconcile reconciles the node as before CRI-O starts.
func (d *testNode) reconcile() error {
	_, err := d.Reconcile(d.t.Context(), func() bool { return true })
	return err
}

// problem is why the store in a slot is not mounted; nil if it is.
func (d *testNode) problem(slot string) error {
	d.t.Helper()
	all, err := d.Status(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s stores.Status) bool { return s.Slot == slot })
	if i < 0 {
		d.t.Fatalf("got %+v, want a store in slot %s", all, slot)
	}
	return all[i].Problem
}

// A rollback goes to the release before, and the next one forward again, as with rpm-ostree. Others that the node
// keeps, KeepPrevious and the appliance's own, are named. A bug was that the second rollback went on to a release
// without sets.
func TestReleases(t *testing.T) {
	for keep, kept := range map[int][]int{0: {0}, 1: {2, 0}, 2: {2, 1, 0}} {
		t.Run(string(rune('0'+keep)), func(t *testing.T) {
			d := newNode(t, numbered(0, 1))
			d.KeepPrevious = keep
			if _, err := d.Rollback(t.Context(), ""); !errors.Is(err, stores.ErrNoPrevious) {
				t.Errorf("got %v, want %v", err, stores.ErrNoPrevious)
			}
			for n := 1; n <= 3; n++ {
				d.attach(stores.AttachOptions{Source: numbered(n, int64(n+1)).folder(t)})
				d.wantSet(n)
			}
			for range 2 {
				d.rollback(kept[0])
				d.rollback(3)
			}
			for n := range 4 {
				_, err := d.Rollback(t.Context(), strconv.Itoa(n+1))
				if want := slices.Contains(kept, n); (err == nil) != want || !want && !errors.Is(err, stores.ErrNoPrevious) {
					t.Errorf("to %d: got %v, want it to succeed: %v", n, err, want)
				}
				if err == nil {
					d.wantSet(n)
					d.rollback(3)
				}
			}
			d.wantMounted(1, 2, 3)
		})
	}
}

// The release below the first one of a node without a store of its own is none: a rollback to it emptied the node.
func TestRollbackBelowTheFirstRelease(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	fixtures.Run(t, "umount", d.Slots[0])
	d.Appliance = pinset.ReleaseID{}
	if err := os.RemoveAll(d.Sets); err != nil {
		t.Fatal(err)
	}
	d.attach(stores.AttachOptions{Source: testStore{n: 5}.folder(t)})
	if _, err := d.PlanRollback(t.Context(), ""); !errors.Is(err, stores.ErrNoPrevious) {
		t.Errorf("a plan: got %v, want %v", err, stores.ErrNoPrevious)
	}
	if _, err := d.Rollback(t.Context(), ""); !errors.Is(err, stores.ErrNoPrevious) {
		t.Errorf("got %v, want %v", err, stores.ErrNoPrevious)
	}
	d.wantSet(5)
}

// A plan of a rollback is the release that the rollback makes current, with its sets, and changes nothing.
func TestPlanRollback(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	d.attach(stores.AttachOptions{Source: delta(2).folder(t)})
	for _, to := range []string{"", "2", "0"} {
		before, err := stores.ReadState(d.Dir)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := d.PlanRollback(t.Context(), to)
		if now, stateErr := stores.ReadState(d.Dir); err != nil || stateErr != nil || !reflect.DeepEqual(now, before) {
			t.Errorf("to %q: got %v, %v and the state %+v, want no change of %+v", to, err, stateErr, now, before)
		}
		if r, err := d.Rollback(t.Context(), to); err != nil || r.ID != plan.ID {
			t.Errorf("to %q: got %v, %v, want the release %v of the plan", to, r.ID, err, plan.ID)
		}
		now, err := stores.ReadState(d.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range now.Releases {
			if r.ID == now.Current && !maps.Equal(r.Sets, plan.Sets) {
				t.Errorf("to %q: got the sets %v planned, want %v", to, plan.Sets, r.Sets)
			}
		}
	}
}

// A dry run of an attach decides as the attach does, and writes nothing.
func TestPlanAttach(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	for _, step := range []struct {
		name string
		o    stores.AttachOptions
		fail error
	}{
		{name: "a new store", o: stores.AttachOptions{Source: delta(1).folder(t)}},
		{name: "without its sets", o: stores.AttachOptions{Source: delta(2).folder(t), KeepSets: true}},
		{name: "one that is attached", o: stores.AttachOptions{Source: "2"}},
		{name: "one that is current", o: stores.AttachOptions{Source: "2"}},
		{name: "the release before, by its slot", o: stores.AttachOptions{Source: "1"}},
		{name: "the appliance's own", o: stores.AttachOptions{Source: "0"}},
		{name: "one that is attached, by its file", o: stores.AttachOptions{Source: delta(1).folder(t)}},
		{name: "another digest", fail: stores.ErrDamaged,
			o: stores.AttachOptions{Source: delta(3).folder(t), Digest: digest.FromString("x")}},
		{name: "without its base", fail: stores.ErrNoBase, o: stores.AttachOptions{Source: testStore{n: 6}.folder(t)}},
		{name: "the last slot", o: stores.AttachOptions{Source: delta(3).folder(t), InPlace: true}},
		{name: "no slot", fail: stores.ErrNoSlot, o: stores.AttachOptions{Source: testStore{n: 5}.folder(t)}},
	} {
		t.Run(step.name, func(t *testing.T) {
			before, files := d.state(), d.files()
			dry := d.Manager
			dry.DryRun = true
			plan, planErr := dry.Attach(t.Context(), step.o)
			if diff := cmp.Diff(files, d.files()); diff != "" {
				t.Errorf("a dry run has changed files (-want +got):\n%s", diff)
			}
			a, err := d.Attach(t.Context(), step.o)
			if !errors.Is(err, step.fail) || !errors.Is(planErr, step.fail) || (err == nil) != (planErr == nil) {
				t.Fatalf("got %v planned and %v, want %v", planErr, err, step.fail)
			}
			now := d.state()
			switch {
			case (plan.Next != nil) != (now.Current != before.Current):
				t.Errorf("got the release %v planned and %v, before %v", plan.Next, now.Current, before.Current)
			case plan.Next != nil && plan.Next.ID != now.Current:
				t.Errorf("got the release %v planned, want %v", plan.Next.ID, now.Current)
			}
			if plan.Store.ID != a.Store.ID || plan.Store.Slot != a.Store.Slot || plan.Found != a.Found ||
				plan.Appliance != a.Appliance {
				t.Errorf("got %+v planned, want %+v", plan, a)
			}
			if copied := len(now.Stores) > len(before.Stores) && !step.o.InPlace; copied != (plan.Most > 0) {
				t.Errorf("got %d bytes planned, want some: %v", plan.Most, copied)
			}
			for _, r := range now.Releases {
				if plan.Next != nil && r.ID == now.Current && !maps.Equal(r.Sets, plan.Next.Sets) {
					t.Errorf("got the sets %v planned, want %v", plan.Next.Sets, r.Sets)
				}
			}
		})
	}
}

// A dry run for a store whose file is damaged says so, and repairs nothing.
func TestPlanRepair(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	source := delta(1).folder(t)
	store := d.attach(stores.AttachOptions{Source: source})
	d.attach(stores.AttachOptions{Source: delta(2).folder(t)})
	fixtures.Run(t, "umount", d.Slots[1])
	file := filepath.Join(d.Dir, store.ID.Encoded()+".squashfs")
	if err := os.Truncate(file, store.Size-1); err != nil {
		t.Fatal(err)
	}
	before := d.files()
	dry := d.Manager
	dry.DryRun = true
	plan, err := dry.Attach(t.Context(), stores.AttachOptions{Source: source})
	if err != nil || !plan.Repaired || plan.Most != store.Size || plan.Next == nil || plan.Next.ID != store.ID {
		t.Errorf("got %+v, %v, want that %d bytes of %s are read again", plan, err, store.Size, store.ID)
	}
	if diff := cmp.Diff(before, d.files()); diff != "" {
		t.Errorf("a dry run has changed files (-want +got):\n%s", diff)
	}
	if a, err := d.Attach(t.Context(), stores.AttachOptions{Source: source}); err != nil || !a.Repaired {
		t.Errorf("got %+v, %v, want it repaired", a, err)
	}
}

// files are the mounts, and the files of the state and of the sets.
func (d *testNode) files() map[string]any {
	d.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		d.t.Fatal(err)
	}
	own := []string{} // others come and go
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+filepath.Dir(d.Dir)+"/") {
			own = append(own, line)
		}
	}
	all := map[string]any{"mounts": own}
	for _, dir := range []string{d.Dir, d.Sets} {
		if _, err := os.Stat(dir); err == nil {
			all[dir] = fixtures.Tree(d.t, dir)
		}
	}
	return all
}

// state reads the state of the node; zero before the first attach.
func (d *testNode) state() (s stores.State) {
	d.t.Helper()
	s, err := stores.ReadState(d.Dir)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// A second attach of a store makes its release current, unless it is automatic. A store that was
// detached is attached again only by a user.
func TestAttachAgain(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	first, second := delta(1).folder(t), delta(2).folder(t)
	d.attach(stores.AttachOptions{Source: first})
	d.attach(stores.AttachOptions{Source: second})
	for _, c := range []struct {
		o       stores.AttachOptions
		current int
	}{
		{stores.AttachOptions{Source: first, Auto: true}, 2},
		{stores.AttachOptions{Source: first, KeepSets: true}, 2},
		{stores.AttachOptions{Source: first}, 1},
		{stores.AttachOptions{Source: first}, 1},
		{stores.AttachOptions{Source: second}, 2},
	} {
		a, err := d.Attach(t.Context(), c.o)
		if err != nil || !a.Found {
			t.Errorf("%+v: got %+v, %v, want a store that is found", c.o, a, err)
		}
		d.wantSet(c.current)
	}
	d.rollback(1)
	if _, err := d.Detach(t.Context(), "2", d.main); err != nil {
		t.Fatal(err)
	}
	a, err := d.Attach(t.Context(), stores.AttachOptions{Source: second, Auto: true})
	if err != nil || !a.Found || a.Store.Slot != "" {
		t.Errorf("got %+v, %v, want no store, and Found true", a, err)
	}
	d.wantMounted(1)
	d.attach(stores.AttachOptions{Source: second})
	d.wantMounted(1, 2)
	d.wantSet(2)
}

// An attach of the appliance's own store makes its release current, unless it is automatic.
func TestAttachApplianceStore(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	own := testStore{n: 0}.folder(t)
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	for _, c := range []struct {
		o       stores.AttachOptions
		current int
	}{
		{stores.AttachOptions{Source: own, Auto: true}, 1},
		{stores.AttachOptions{Source: own, KeepSets: true}, 1},
		{stores.AttachOptions{Source: own}, 0},
	} {
		a, err := d.Attach(t.Context(), c.o)
		if err != nil || !a.Found || !a.Appliance || a.Store.Slot != "0" {
			t.Errorf("%+v: got %+v, %v, want the store of slot 0", c.o, a, err)
		}
		d.wantSet(c.current)
	}
	d.wantMounted(1)
}

// A rollback restores sets as users had changed them, and does not touch sets that users added.
func TestChangedSets(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	path := filepath.Join(d.Sets, "s.yaml")
	mine, own := "kind: ConfigMap # mine\n", filepath.Join(d.Sets, "own.yaml")
	write(t, path, mine)
	write(t, own, mine)
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	d.wantSet(1)
	d.attach(stores.AttachOptions{Source: delta(2).folder(t)})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d.rollback(1)
	if _, err := d.Rollback(t.Context(), "0"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, own} {
		if got, err := os.ReadFile(path); err != nil || string(got) != mine {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, mine)
		}
	}
}

// ostree keeps /etc with each version of the system and /var once: after a rollback of the system, the folder has the
// sets of the release before. That is seen, and they are not taken for changes of the user.
func TestFolderOfSetsIsRolledBack(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	path := filepath.Join(d.Sets, "s.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := testStore{n: 1, release: pinset.ReleaseID{Name: "small", Number: 1}}.folder(t)
	d.attach(stores.AttachOptions{Source: first})
	if err := d.reconcile(); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"forward", "back"} {
		write(t, path, string(before))
		if err := d.reconcile(); !errors.Is(err, stores.ErrOtherSets) || !strings.Contains(err.Error(), "small release 1 is current") {
			t.Errorf("got %v, want %v with both releases", err, stores.ErrOtherSets)
		}
		if _, err := d.Status(t.Context()); !errors.Is(err, stores.ErrOtherSets) {
			t.Errorf("got the status %v, want %v", err, stores.ErrOtherSets)
		}
		if to == "back" {
			d.rollback(0)
		}
		d.attach(stores.AttachOptions{Source: first})
		d.wantSet(1)
		if err := d.reconcile(); err != nil {
			t.Errorf("%s: got %v, want no error", to, err)
		}
	}
	write(t, path, string(before)+"# mine\n")
	if err := d.reconcile(); err != nil {
		t.Errorf("a set that a user has changed: got %v, want no error", err)
	}
}

// The sets that came back with an older system may be those of a release that the node keeps no more. The next release
// does not take them for what a user made of the current one: a rollback restores the current one's own.
func TestFolderOfSetsIsRolledBackFar(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.KeepPrevious = 0
	path := filepath.Join(d.Sets, "s.yaml")
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	far, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d.attach(stores.AttachOptions{Source: delta(2).folder(t)})
	old := filepath.Join(d.Sets, "old.yaml") // of a release with other names
	write(t, path, string(far))
	write(t, old, string(far))
	if err := d.reconcile(); !errors.Is(err, stores.ErrOtherSets) || !strings.Contains(err.Error(), "one that the node does not keep") {
		t.Errorf("got %v, want %v of a release that is not kept", err, stores.ErrOtherSets)
	}
	d.KeepPrevious = 1
	d.attach(stores.AttachOptions{Source: delta(3).folder(t)})
	d.wantSet(3)
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the set of a release before is removed", err)
	}
	d.rollback(2)
	if err := d.reconcile(); err != nil {
		t.Errorf("after a rollback: got %v, want no error", err)
	}
}

// A store is named by its slot, the name of its appliance, or the beginning of its digest.
func TestFindStoreByName(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	ids := map[string]string{}
	for n := 1; n <= 2; n++ {
		s := d.attach(stores.AttachOptions{Source: delta(n).folder(t), KeepSets: true})
		ids[s.Slot] = s.ID.Encoded()
	}
	for name, want := range map[string]string{
		"3": "no such store", "small": "it matches 2: ", ids["1"][:3]: "no such store", "": "no such store",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Detach(t.Context(), name, d.main)
			if !errors.Is(err, stores.ErrNotAttached) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %v: %s", err, stores.ErrNotAttached, want)
			}
		})
	}
	if s, err := d.Detach(t.Context(), "sha256:"+ids["2"][:4], d.main); err != nil || s.Slot != "2" {
		t.Errorf("got %+v, %v, want the store of slot 2", s, err)
	}
	if s, err := d.Detach(t.Context(), "small", d.main); err != nil || s.Slot != "1" {
		t.Errorf("got %+v, %v, want the store of slot 1", s, err)
	}
	d.wantMounted()
}

// Stores that nothing needs are detached, and for each of the others the reason is returned.
func TestDetachUnused(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.KeepPrevious = 1
	for n := 1; n <= 3; n++ {
		d.attach(stores.AttachOptions{Source: delta(n).folder(t)})
	}
	if _, _, err := d.DetachUnused(t.Context(), filepath.Join(d.main, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without CRI-O's main store: got %v, want %v", err, os.ErrNotExist)
	}
	d.wantMounted(1, 2, 3)
	before, err := stores.ReadState(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dry := d.Manager
	dry.DryRun = true
	would, stay, err := dry.DetachUnused(t.Context(), d.main)
	if now, stateErr := stores.ReadState(d.Dir); err != nil || stateErr != nil || !reflect.DeepEqual(now, before) {
		t.Errorf("a dry run: got %v, %v and the state %+v, want no change of %+v", err, stateErr, now, before)
	}
	d.wantMounted(1, 2, 3)
	if _, err := dry.Detach(t.Context(), "3", d.main); !errors.Is(err, stores.ErrInUse) {
		t.Errorf("a dry run for the current store: got %v, want %v", err, stores.ErrInUse)
	}
	removed, kept, err := d.DetachUnused(t.Context(), d.main)
	if len(would) != len(removed) || would[0].ID != removed[0].ID || fmt.Sprint(stay) != fmt.Sprint(kept) {
		t.Errorf("a dry run: got %+v, %v, want what is done: %+v, %v", would, stay, removed, kept)
	}
	if err != nil || len(removed) != 1 || removed[0].Slot != "1" || len(kept) != 2 {
		t.Errorf("got %+v removed, %v kept, %v, want slot 1 removed, two stores kept", removed, kept, err)
	}
	reasons := ""
	for _, reason := range kept {
		reasons += reason.Error() + "\n"
	}
	if !strings.Contains(reasons, "a rollback needs it") || !strings.Contains(reasons, "its sets are current") {
		t.Errorf("got the reasons %s, want that a rollback needs one store, and the other is current", reasons)
	}
	d.wantMounted(2, 3)
}

// A store is not detached while sets ask for an image, or another store needs a layer, that only
// this store has.
func TestStoreInUse(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t), KeepSets: true})
	over := d.attach(stores.AttachOptions{Source: testStore{n: 8}.folder(t), KeepSets: true})
	wantInUse := func(user string) {
		t.Helper()
		_, err := d.Detach(t.Context(), "1", d.main)
		if !errors.Is(err, stores.ErrInUse) || !strings.Contains(err.Error(), user) {
			t.Errorf("got %v, want %v by %s", err, stores.ErrInUse, user)
		}
	}
	wantInUse("the store small")
	file := filepath.Join(d.Dir, over.ID.Encoded()+".squashfs")
	if err := os.Rename(file, file+"-moved"); err != nil {
		t.Fatal(err)
	}
	wantInUse("whose file cannot be read")
	if err := os.Rename(file+"-moved", file); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Detach(t.Context(), "2", d.main); err != nil {
		t.Fatal(err)
	}
	d.wanted = []pinset.Image{imageOf(t, 0), imageOf(t, 1)}
	wantInUse(pinOf(1))
	other := t.TempDir()
	delta(1).write(t, other)
	d.OtherStores = []string{other}
	if _, err := d.Detach(t.Context(), "1", d.main); err != nil {
		t.Errorf("with the same layers in another store: got %v, want no error", err)
	}
	d.OtherStores = nil
	d.attach(stores.AttachOptions{Source: delta(1).folder(t), KeepSets: true})
	broken := errors.New("b.yaml cannot be read")
	d.Wanted = func() ([]pinset.Image, error) { return nil, broken }
	if _, err := d.Detach(t.Context(), "1", d.main); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	d.wantMounted(1)
}

// A store whose file is missing or damaged is not mounted, nor are the stores that need it; the
// others are. Once the file is restored, all are mounted.
func TestMissingFiles(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	one := d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	d.attach(stores.AttachOptions{Source: testStore{n: 8}.folder(t)})
	d.attach(stores.AttachOptions{Source: delta(3).folder(t)})
	file := filepath.Join(d.Dir, one.ID.Encoded()+".squashfs")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage func() error
		want   error
	}{
		"missing":     {func() error { return os.Remove(file) }, stores.ErrMissing},
		"a byte less": {func() error { return os.Truncate(file, int64(len(content)-1)) }, stores.ErrDamaged},
		"another store": {func() error {
			other, err := os.ReadFile(filepath.Join(delta(4).folder(t), "delta.squashfs"))
			if err != nil || len(other) != len(content) {
				t.Fatalf("got another store of %d bytes, %v, want %d", len(other), err, len(content))
			}
			return os.WriteFile(file, other, 0o600)
		}, stores.ErrDamaged},
		"other bytes": {func() error { return os.WriteFile(file, make([]byte, len(content)), 0o600) }, stores.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			d.reboot()
			if err := c.damage(); err != nil {
				t.Fatal(err)
			}
			if err := d.reconcile(); err != nil {
				t.Error(err)
			}
			if got := d.problem("1"); !errors.Is(got, c.want) {
				t.Errorf("slot 1: got %v, want %v", got, c.want)
			}
			if got := d.problem("2"); !errors.Is(got, stores.ErrNoBase) {
				t.Errorf("slot 2: got %v, want %v", got, stores.ErrNoBase)
			}
			if got := d.problem("3"); got != nil {
				t.Errorf("slot 3: got %v, want a mounted store", got)
			}
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.reconcile(); err != nil {
				t.Error(err)
			}
			d.wantMounted(1, 8, 3)
		})
	}
}

// A second attach restores a missing file, also if it is automatic.
func TestAttachRestoresAMissingFile(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	s := d.attach(stores.AttachOptions{Source: folder})
	for _, auto := range []bool{false, true} {
		d.reboot()
		if err := os.Remove(filepath.Join(d.Dir, s.ID.Encoded()+".squashfs")); err != nil {
			t.Fatal(err)
		}
		d.attach(stores.AttachOptions{Source: folder, Auto: auto})
		d.wantMounted(1)
	}
}

// A store is used in place until it is attached without InPlace.
func TestInPlace(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	copied := func() bool {
		files, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs"))
		return err == nil && len(files) > 0
	}
	path := filepath.Join(folder, "delta.squashfs")
	if got := d.attach(stores.AttachOptions{Source: folder, InPlace: true}); got.Path != path || copied() {
		t.Errorf("got %+v, copied %v, want the store at %s", got, copied(), path)
	}
	d.reboot()
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	d.wantMounted(1)
	if got := d.attach(stores.AttachOptions{Source: folder, Auto: true}); got.Path == "" || copied() {
		t.Errorf("got %+v, copied %v, want a store in place", got, copied())
	}
	if got := d.attach(stores.AttachOptions{Source: folder}); got.Path != "" || !copied() {
		t.Errorf("got %+v, copied %v, want a copy", got, copied())
	}
	d.wantMounted(1)
	if _, err := d.Detach(t.Context(), "1", d.main); err == nil {
		t.Error("got no error, want ErrInUse, as its sets are current")
	}
	d.rollback(0)
	if _, err := d.Detach(t.Context(), "1", d.main); err != nil || copied() {
		t.Errorf("got %v, copied %v, want no copy", err, copied())
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("after detach: got %v, want the file at %s", err, path)
	}
}

// A release whose store is not mounted cannot be made current.
func TestRollbackToAMissingStore(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	one := d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	d.attach(stores.AttachOptions{Source: delta(2).folder(t)})
	d.reboot()
	if err := os.Remove(filepath.Join(d.Dir, one.ID.Encoded()+".squashfs")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Rollback(t.Context(), ""); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("got %v, want %v", err, stores.ErrMissing)
	}
	d.wantSet(2)
}

// If the state and its copy are missing or damaged, or it is of another version, nothing is changed.
func TestUnreadableState(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	file := filepath.Join(d.Dir, "state.json")
	both := func(change func(string) error) error { return errors.Join(change(file), change(file+".copy")) }
	for name, damage := range map[string]func() error{
		"another version": func() error { return os.WriteFile(file, []byte(`{"version":99}`), 0o600) },
		"no JSON": func() error {
			return both(func(name string) error { return os.WriteFile(name, []byte("{"), 0o600) })
		},
		"missing": func() error { return both(os.Remove) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if err := d.reconcile(); !errors.Is(err, stores.ErrState) {
				t.Errorf("got %v, want %v", err, stores.ErrState)
			}
			if files, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(files) != 1 {
				t.Errorf("got the files %v, %v, want the file of the store", files, err)
			}
		})
	}
}

// If state.json alone is lost or damaged, its copy counts: nothing is unmounted or removed, the next
// pass reports it and writes the file again, and the one after that is as before.
func TestLostState(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	file := filepath.Join(d.Dir, "state.json")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"missing":      func() error { return os.Remove(file) },
		"empty":        func() error { return os.WriteFile(file, nil, 0o600) },
		"no JSON":      func() error { return os.WriteFile(file, want[:len(want)/2], 0o600) },
		"a bad digest": func() error { return os.WriteFile(file, bytes.Replace(want, []byte("sha256:"), nil, 1), 0o600) },
		"copy is lost": func() error { return os.Remove(file + ".copy") },
	} {
		t.Run(name, func(t *testing.T) {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			lost := name != "copy is lost"
			if _, err := d.Status(t.Context()); errors.Is(err, stores.ErrRestored) != lost {
				t.Errorf("status: got %v, want an error: %v", err, lost)
			}
			if err := d.reconcile(); errors.Is(err, stores.ErrRestored) != lost {
				t.Errorf("the next pass: got %v, want an error: %v", err, lost)
			}
			if err := d.reconcile(); err != nil {
				t.Errorf("the pass after that: got %v, want no error", err)
			}
			d.wantMounted(1)
			for _, name := range []string{file, file + ".copy"} {
				if got, err := os.ReadFile(name); !bytes.Equal(got, want) {
					t.Errorf("%s: got\n%s, %v, want\n%s", name, got, err, want)
				}
			}
		})
	}
}

// Files of killed processes are removed, other files are not.
func TestLeftovers(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	temporary := []string{
		filepath.Join(d.Dir, strings.Repeat("0", 64)+".squashfs"), filepath.Join(d.Dir, "x.squashfs.part"),
		filepath.Join(d.Dir, ".incoming.squashfs.pinbox-partial"),
	}
	foreign := []string{
		filepath.Join(d.Dir, "note"), filepath.Join(d.Dir, "folder.part", "file"), filepath.Join(d.Sets, "note"),
	}
	for _, name := range append(temporary, foreign...) {
		write(t, name, "")
	}
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	for _, name := range temporary {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want %v", name, err, os.ErrNotExist)
		}
	}
	for _, name := range foreign {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s: got %v, want the file", name, err)
		}
	}
	d.wantMounted(1)
}

// Without an attached store, Reconcile creates no folder for the state.
func TestNothingAttached(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	d.wantMounted()
	if _, err := os.Stat(d.Dir); !os.IsNotExist(err) {
		t.Errorf("got %v, want no folder", err)
	}
}

// Only one process at a time changes the stores; others wait up to Manager.Wait.
func TestStoresAreLocked(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	called := false
	d.attach(stores.AttachOptions{Source: folder, Node: asked{fits: func(int64) error {
		called = true
		_, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder})
		if !errors.Is(err, stores.ErrBusy) {
			t.Errorf("got %v, want %v", err, stores.ErrBusy)
		}
		if _, err := d.Reconcile(t.Context(), nil); !errors.Is(err, stores.ErrBusy) {
			t.Errorf("got %v, want %v", err, stores.ErrBusy)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		waiting := d.Manager
		waiting.Wait = 1 << 40
		if _, err := waiting.Reconcile(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		return nil
	}}})
	if !called {
		t.Error("the node was not asked for space")
	}
}

// countingMounter counts the mounts.
type countingMounter struct {
	mount.Direct
	mounts int
}

func (m *countingMounter) Mount(ctx context.Context, mount mount.Mount) error {
	m.mounts++
	return m.Direct.Mount(ctx, mount)
}

// Reconcile does not touch stores that are mounted, and unmounts all but one of several mounts at a slot.
func TestMountedStoresStayMounted(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	m := &countingMounter{}
	d.Mounter = m
	for _, more := range []int{0, 2} {
		for range more {
			fixtures.Run(t, "mount", "--bind", d.Slots[1], d.Slots[1])
		}
		if err := d.reconcile(); err != nil || m.mounts > 0 {
			t.Errorf("%d more mounts: got %v, %d mounts, want none", more, err, m.mounts)
		}
		d.wantMounted(1)
	}
	if err := syscall.Unmount(d.Slots[1], syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Unmount(d.Slots[1], syscall.MNT_DETACH); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v, want one mount at the slot", err)
	}
}

// A store that was attached without its sets gets them by a second attach.
func TestAttachAgainWithSets(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	d.attach(stores.AttachOptions{Source: folder, KeepSets: true})
	d.wantSet(0)
	d.attach(stores.AttachOptions{Source: folder})
	d.wantSet(1)
}

// The sets of a release are written once: what a user changes then stays.
func TestChangedSetsStay(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	name := filepath.Join(d.Sets, "s.yaml")
	write(t, name, "changed")
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "changed" {
		t.Errorf("got %q, %v, want the changed set", text, err)
	}
}

// The status has which stores are of the current release, and which of the previous one.
func TestStatusOfReleases(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	for n := 1; n <= 3; n++ {
		d.attach(stores.AttachOptions{Source: delta(n).folder(t)})
	}
	all, err := d.Status(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("got %+v, %v, want three stores", all, err)
	}
	for i, s := range all {
		if s.Current != (i == 2) || s.Previous != (i == 1) {
			t.Errorf("store %d: got current %v, previous %v, want %v, %v", i+1, s.Current, s.Previous, i == 2, i == 1)
		}
	}
}

// A user changes a set on the node and adds another. A new release replaces only sets of releases,
// and a rollback restores the changed one.
func TestSetsOfUsers(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	less, own := sample.SetNamed("s", pinOf(0), pinOf(5)), sample.SetNamed("own", pinOf(0))
	write(t, filepath.Join(d.Sets, "s.yaml"), string(less))
	write(t, filepath.Join(d.Sets, "own.yaml"), string(own))
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	sets := func() map[string]string {
		all := map[string]string{}
		names, err := filepath.Glob(filepath.Join(d.Sets, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(name)] = string(text)
		}
		return all
	}
	if got := sets(); got["own.yaml"] != string(own) || got["s.yaml"] == string(less) || len(got) != 2 {
		t.Errorf("after attach: got %v, want own.yaml and the set of the release", got)
	}
	if _, err := d.Rollback(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := sets(); got["own.yaml"] != string(own) || got["s.yaml"] != string(less) || len(got) != 2 {
		t.Errorf("after rollback: got %v, want own.yaml and the changed set", got)
	}
}

// A store that the node has becomes current by its number, its digest or its slot, also an older one, one that came
// without its sets, and the current one if the folder of sets is not its own. A name that is no file says
// what there is.
func TestAttachByName(t *testing.T) {
	d := newNode(t, numbered(0, 1))
	first := d.attach(stores.AttachOptions{Source: numbered(1, 2).folder(t)})
	d.attach(stores.AttachOptions{Source: numbered(2, 3).folder(t)})
	d.attach(stores.AttachOptions{Source: numbered(3, 4).folder(t), KeepSets: true})
	for _, c := range []struct {
		name    string
		current int
		want    string // in the error; "" for none
	}{
		{"3", 2, ""}, {"2", 1, ""}, {"3", 2, ""}, {first.ID.Encoded()[:8], 1, ""}, {"4", 3, ""}, {"2", 1, ""}, {"1", 0, ""},
		{"4", 3, ""}, {"9", 3, "it names 0 of what the node has: small release "},
		{"small", 3, "it names 3 of"}, {"./2", 3, "no such file or directory"},
	} {
		a, err := d.Attach(t.Context(), stores.AttachOptions{Source: c.name})
		if got := fmt.Sprint(err); (err != nil) != (c.want != "") || !strings.Contains(got, c.want) || a.Found != (err == nil) {
			t.Errorf("%s: got %+v, %v, want %q", c.name, a, err, c.want)
		}
		d.wantSet(c.current)
	}
	if err := os.Remove(filepath.Join(d.Sets, "s.yaml")); err != nil {
		t.Fatal(err)
	}
	d.attach(stores.AttachOptions{Source: "4"})
	d.wantSet(3)
}
