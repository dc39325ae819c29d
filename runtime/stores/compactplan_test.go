package stores_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/pinset"
)

// compact compacts the attached stores and returns the plan. The compacted store is a testStore
// with the newest image and the extra ones.
func (d *testNode) compact(extra ...int) (plan stores.CompactPlan, err error) {
	d.t.Helper()
	folder := testStore{n: 3, extra: extra}.folder(d.t)
	content, err := os.ReadFile(filepath.Join(folder, "delta.squashfs"))
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = d.Compact(d.t.Context(), stores.CompactOptions{
		GraphRoots: []string{d.main},
		Write: func(_ context.Context, out io.Writer, p stores.CompactPlan) error {
			plan = p
			_, err := out.Write(content)
			return err
		},
	})
	return plan, err
}

// threeStores makes a node with three attached stores; the last two have releases.
func threeStores(t *testing.T) *testNode {
	t.Helper()
	d := newNode(t, testStore{n: 0})
	for n := 1; n <= 3; n++ {
		d.attach(stores.AttachOptions{Source: delta(n).folder(t)})
	}
	return d
}

// A compacted store has what releases have, what sets ask for, and what CRI-O uses.
func TestCompactPlanContents(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testNode)
		want   []int
	}{
		"releases":     {func(*testNode) {}, []int{2, 3}},
		"sets as well": {func(d *testNode) { d.wanted = []pinset.Image{imageOf(d.t, 1), imageOf(d.t, 3)} }, []int{1, 2, 3}},
		"a set":        {func(d *testNode) { d.wanted = []pinset.Image{imageOf(d.t, 1)} }, []int{1, 2, 3}},
		"a container": {func(d *testNode) {
			write(d.t, filepath.Join(d.main, "overlay-containers/containers.json"),
				string(records(d.t, object{"id": idOf("container", 1), "image": idOf("image", 1)})))
		}, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			d := threeStores(t)
			c.change(d)
			plan, err := d.compact(1, 2)
			if err != nil {
				t.Fatal(err)
			}
			images, layers := map[string]bool{}, map[string]bool{}
			for _, n := range c.want {
				images[idOf("image", n)], layers[idOf("layer", n)] = true, true
			}
			equal := maps.Equal(plan.Images, images) && maps.Equal(plan.Layers, layers)
			if !equal || len(plan.Stores) != 3 || plan.Lock.Name != "small" {
				t.Errorf("got %+v, want the images %v of three stores", plan, c.want)
			}
			pins := map[string]int{}
			for _, img := range plan.Lock.Images {
				pins[img.Pin]++
			}
			for _, n := range []int{2, 3} { // the releases
				if pins[pinOf(n)] != 1 {
					t.Errorf("got the image %d %d times in the lock, want it once", n, pins[pinOf(n)])
				}
			}
		})
	}
}

// The appliance's own store is compacted if that is asked for, and only if it is mounted.
func TestCompactPlanWithTheApplianceStore(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	if _, err := d.compact(); !errors.Is(err, stores.ErrNothingToCompact) {
		t.Errorf("one store: got %v, want %v", err, stores.ErrNothingToCompact)
	}
	planned := errors.New("planned")
	var plan stores.CompactPlan
	all := stores.CompactOptions{GraphRoots: []string{d.main}, All: true,
		Write: func(_ context.Context, _ io.Writer, p stores.CompactPlan) error {
			plan = p
			return planned
		}}
	if _, err := d.Compact(t.Context(), all); !errors.Is(err, planned) || len(plan.Stores) != 2 {
		t.Fatalf("got %v, %+v, want two stores", err, plan)
	}
	own, err := stores.OpenFS(plan.Stores[0])
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	images, err := fs.ReadFile(own, "overlay-images/images.json")
	if err != nil || !strings.Contains(string(images), pinOf(0)) {
		t.Errorf("got %s, %v, want the image of the appliance's own store", images, err)
	}
	if err := syscall.Unmount(d.Slots[0], syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Compact(t.Context(), all); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("without the appliance's own store: got %v, want %v", err, stores.ErrMissing)
	}
}

// Two attached stores are enough for a compaction, and the release of the first of them counts.
func TestCompactTwoStores(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	for n := 1; n <= 2; n++ {
		d.attach(stores.AttachOptions{Source: delta(n).folder(t)})
	}
	plan, err := d.compact()
	if err != nil || len(plan.Stores) != 2 || !plan.Images[idOf("image", 1)] || !plan.Images[idOf("image", 2)] {
		t.Errorf("got %+v, %v, want both stores with their images", plan, err)
	}
}

// An image that both stores have is once in the lock.
func TestCompactAnImageOfTwoStores(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: testStore{n: 1, extra: []int{2}}.folder(t)})
	d.attach(stores.AttachOptions{Source: testStore{n: 2}.folder(t)})
	plan, err := d.compact()
	if err != nil || len(plan.Lock.Images) != 2 || len(plan.Images) != 2 {
		t.Errorf("got %+v, %v, want each image once", plan, err)
	}
}

// The compacted store replaces the others before CRI-O starts, also in their releases.
func TestCompactedStoreReplacesTheOthers(t *testing.T) {
	d := threeStores(t)
	if _, err := d.compact(2); err != nil {
		t.Fatal(err)
	}
	d.wantMounted(1, 2, 3)
	if plan, err := d.compact(2); err != nil || plan.Stores != nil {
		t.Errorf("second compaction: got %+v, %v, want the first one", plan, err)
	}
	if _, err := d.Reconcile(t.Context(), func() bool { return false }); err != nil {
		t.Error(err)
	}
	d.wantMounted(1, 2, 3) // CRI-O runs
	d.reboot()
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	d.wantMounted(3)
	d.wantSet(3)
	d.rollback(2)
	if _, err := os.Stat(filepath.Join(d.Dir, "trial")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the trial mount point is removed", err)
	}
	if files, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs")); err != nil || len(files) != 1 {
		t.Errorf("got the files %v, %v, want the file of the compacted store", files, err)
	}
	if _, err := d.compact(); !errors.Is(err, stores.ErrNothingToCompact) {
		t.Errorf("got %v, want %v", err, stores.ErrNothingToCompact)
	}
}

// failingMounter cannot mount at one mount point.
type failingMounter struct {
	mount.Direct
	where string
}

func (b failingMounter) Mount(ctx context.Context, m mount.Mount) error {
	if m.Where == b.where {
		return syscall.EIO
	}
	return b.Direct.Mount(ctx, m)
}

// The compacted store is discarded if something new needs what it does not have, or if it cannot be
// mounted.
func TestCompactedStoreIsDiscarded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testNode)
		want   error
	}{
		"a container": {func(d *testNode) {
			write(d.t, filepath.Join(d.main, "overlay-containers/containers.json"),
				string(records(d.t, object{"id": idOf("container", 1), "image": idOf("image", 1)})))
		}, stores.ErrInUse},
		"an image over a layer": {func(d *testNode) {
			write(d.t, filepath.Join(d.main, "overlay-images/images.json"),
				string(records(d.t, object{"id": idOf("image", 9), "layer": idOf("layer", 1)})))
		}, stores.ErrInUse},
		"a store over a layer": {func(d *testNode) {
			d.Slots = append(d.Slots, filepath.Join(filepath.Dir(d.Slots[0]), "4"))
			d.Configured = d.Slots
			d.attach(stores.AttachOptions{Source: testStore{n: 8}.folder(d.t), KeepSets: true})
		}, stores.ErrInUse},
		"a release of a store": {func(d *testNode) {
			d.attach(stores.AttachOptions{Source: delta(1).folder(d.t), Force: true})
		}, stores.ErrInUse},
		"a set":               {func(d *testNode) { d.wanted = []pinset.Image{imageOf(d.t, 1)} }, stores.ErrInUse},
		"a store is detached": {func(d *testNode) { _, _ = d.Detach(d.t.Context(), "1", d.main) }, stores.ErrNotAttached},
		"no main store":       {func(d *testNode) { _ = os.RemoveAll(d.main) }, os.ErrNotExist},
		"it does not mount": {func(d *testNode) {
			d.Mounter = failingMounter{where: filepath.Join(d.Dir, "trial")}
		}, syscall.EIO},
		"no base":          {func(d *testNode) { _ = syscall.Unmount(d.Slots[0], syscall.MNT_DETACH) }, stores.ErrNoBase},
		"a truncated file": {func(d *testNode) { truncateCompactedStore(d) }, stores.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			d := threeStores(t)
			if _, err := d.compact(2); err != nil {
				t.Fatal(err)
			}
			c.change(d)
			err := d.reconcile()
			if !errors.Is(err, stores.ErrNotReplaced) || !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v: %v", err, stores.ErrNotReplaced, c.want)
			}
			all, err := d.Status(t.Context())
			if err != nil || len(all) < 2 {
				t.Errorf("got %+v, %v, want the stores as they were", all, err)
			}
			if err := d.reconcile(); errors.Is(err, stores.ErrNotReplaced) {
				t.Errorf("at the next start: got %v, want no second attempt", err)
			}
		})
	}
}

// truncateCompactedStore truncates the file of the compacted store, the only one without a slot.
func truncateCompactedStore(d *testNode) {
	all, err := d.Status(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs"))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, file := range files {
		is := func(s stores.Status) bool { return s.ID.Encoded()+".squashfs" == filepath.Base(file) }
		if !slices.ContainsFunc(all, is) {
			if err := os.Truncate(file, 100); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// A compaction that fails leaves no files.
func TestCompactError(t *testing.T) {
	full := errors.New("no space")
	for name, o := range map[string]stores.CompactOptions{
		"no space": {CheckSpace: func(bytes int64) error {
			if bytes == 0 {
				return nil
			}
			return full
		}},
		"cannot be written": {Write: func(context.Context, io.Writer, stores.CompactPlan) error { return full }},
	} {
		t.Run(name, func(t *testing.T) {
			d := threeStores(t)
			o.GraphRoots = []string{d.main}
			if _, err := d.Compact(t.Context(), o); !errors.Is(err, full) {
				t.Errorf("got %v, want %v", err, full)
			}
			if err := d.reconcile(); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(filepath.Join(d.Dir, "[^.]*")); err != nil || len(left) != 5 {
				t.Errorf("got the files %v, %v, want three stores, the state and its copy", left, err)
			}
			d.wantMounted(1, 2, 3)
		})
	}
}
