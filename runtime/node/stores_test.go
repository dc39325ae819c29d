package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
)

func TestMain(m *testing.M) {
	code := m.Run()
	fixtures.RemovePrograms()
	os.Exit(code)
}

// chain builds an appliance and deltas, each over the one before, and gives their
// folders and what each pins.
func chain(t *testing.T, deltas int) (folders, pins []string) {
	t.Helper()
	fixtures.NeedRoot(t)
	registry, _ := appliance.Registry(t)
	sizes := []int{1000}
	for n := range deltas + 1 {
		pin := pushed(t, registry, "app/a", sizes...)
		o := appliance.Options(t, sample.SetNamed("s", pin))
		if n == 0 {
			appliance.Build(t, o)
		} else {
			o.From = []string{folders[n-1]}
			if _, err := builder.Delta(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		folders, pins, sizes = append(folders, o.Out), append(pins, pin), append(sizes, 2000+n)
	}
	return folders, pins
}

func pushed(t *testing.T, r *sample.Registry, repository string, sizes ...int) string {
	t.Helper()
	pin, err := r.PushStack(t.Context(), repository, sizes...)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// attached is a keeper to which all deltas of a chain came.
func attachedTo(t *testing.T, folders []string) stores.Manager {
	t.Helper()
	k := keep(t, folders[0], "100m")
	k.KeepPrevious = 1
	for _, folder := range folders[1:] {
		bring(t, k, stores.AttachOptions{Source: folder})
	}
	return k
}

func bring(t *testing.T, k stores.Manager, o stores.AttachOptions) stores.Store {
	t.Helper()
	a, err := k.Attach(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return a.Store
}

// reboot takes away what is mounted, but for the appliance's own store.
func reboot(t *testing.T, k stores.Manager) {
	t.Helper()
	for _, slot := range k.Slots[1:] {
		if err := syscall.Unmount(slot, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) &&
			!errors.Is(err, syscall.ENOENT) {
			t.Fatal(err)
		}
	}
}

// well wants so many stores to be mounted, and none to be away.
func well(t *testing.T, k stores.Manager, n int) {
	t.Helper()
	all, err := k.Status()
	if err != nil || len(all) != n {
		t.Errorf("%d stores, want %d: %v", len(all), n, err)
	}
	for _, s := range all {
		if s.Problem != nil {
			t.Errorf("slot %s: %v", s.Slot, s.Problem)
		}
	}
}

// busy is a service manager that does not take away what somebody stands in.
type busy struct{ stores.DirectMounter }

func (busy) Unmount(context.Context, string) error { return syscall.EBUSY }

// Whatever keeps a store where it is, keeps nothing else from being done.
func TestUnmountOfWhatIsBusy(t *testing.T) {
	folders, _ := chain(t, 2)
	k := attachedTo(t, folders)
	k.Mounter = busy{}
	if _, err := k.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(k.Sets, "s.yaml")); err != nil { // which asks for an image of the first
		t.Fatal(err)
	}
	if _, err := k.Detach(t.Context(), "2", mainStore(t)); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
}

// Nobody knows any more what was attached: the files of the stores are not taken for
// what a killed run has left, and can be attached again.
func TestStateIsLost(t *testing.T) {
	folders, _ := chain(t, 2)
	k := attachedTo(t, folders)
	if err := os.Remove(filepath.Join(k.Dir, "state.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), nil); !errors.Is(err, stores.ErrState) {
		t.Errorf("%v", err)
	}
	reboot(t, k)
	away := k.Dir + ".away"
	if err := os.Rename(k.Dir, away); err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders[1:] {
		sum := strings.Fields(fixtures.Run(t, "sha256sum", filepath.Join(folder, artifact.DeltaStoreFile)))[0]
		bring(t, k, stores.AttachOptions{
			Source: filepath.Join(away, sum+".squashfs"), Digest: digest.Digest("sha256:" + sum),
		})
	}
	well(t, k, 2)
}

// mainStore is the root of a CRI-O that has nothing.
func mainStore(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "overlay-layers"), 0o700); err != nil {
		t.Fatal(err)
	}
	return root
}

// compacts makes one store of those that are attached.
func compacts(t *testing.T, k stores.Manager) stores.Compaction {
	t.Helper()
	f, err := k.Compact(t.Context(), stores.CompactOptions{GraphRoot: mainStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// picky does not mount one file.
type picky struct {
	stores.DirectMounter
	file string
}

func (p picky) Mount(ctx context.Context, m stores.Mount) error {
	if filepath.Base(m.What) == p.file {
		return syscall.EIO
	}
	return p.DirectMounter.Mount(ctx, m)
}

// The compacted store cannot be mounted: those that it was made of stay.
func TestCompactedStoreCannotBeMounted(t *testing.T) {
	folders, _ := chain(t, 3)
	k := attachedTo(t, folders)
	f := compacts(t, k)
	k.Mounter = picky{file: f.Store.ID.Encoded() + ".squashfs"}
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); !errors.Is(err, stores.ErrNotReplaced) ||
		!errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	well(t, k, 3)
	compacts(t, k)
	k.Mounter = stores.DirectMounter{}
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
	entries, err := os.ReadDir(k.Dir)
	if err != nil || len(entries) != 4 { // with locks and state
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// A set asks for an image of a release that is not kept any more: compaction keeps it, and
// what a set asks for since then keeps the stores.
func TestCompactionKeepsWhatSetsAskFor(t *testing.T) {
	folders, pins := chain(t, 4)
	k := attachedTo(t, folders)
	own := func(name, pin string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(k.Sets, name+".yaml"), []byte(sample.SetNamed(name, pin)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own("first", pins[1])
	compacts(t, k)
	own("second", pins[2])
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); !errors.Is(err, stores.ErrNotReplaced) ||
		!strings.Contains(err.Error(), pins[2]) {
		t.Errorf("%v", err)
	}
	well(t, k, 4)
	if err := os.Remove(filepath.Join(k.Sets, "second.yaml")); err != nil {
		t.Fatal(err)
	}
	compacted := compacts(t, k).Store
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
	for n, want := range []bool{1: true, 2: false, 3: true, 4: true} {
		for _, name := range []string{"overlay-images/images.json", "pinbox/pinbox.lock.json"} {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(k.Slots[0]), "5", name))
			if n > 0 && (err != nil || strings.Contains(string(text), pins[n]) != want) {
				t.Errorf("%s, image %d of %d: %v", name, n, compacted.Images, err)
			}
		}
	}
}

// A store whose file is lost or damaged is brought again by attaching it again, from
// whatever place.
func TestAttachMends(t *testing.T) {
	folders, _ := chain(t, 2)
	k := attachedTo(t, folders)
	all, err := k.Status()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(k.Dir, all[0].ID.Encoded()+".squashfs")
	for name, damage := range map[string]func() error{
		"lost": func() error { return os.Remove(file) }, "cut": func() error { return os.Truncate(file, 4096) },
	} {
		reboot(t, k)
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Attach(t.Context(), stores.AttachOptions{Source: folders[1], Auto: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		well(t, k, 2)
	}
	reboot(t, k)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	place := bring(t, k, stores.AttachOptions{Source: folders[1], InPlace: true}).Path
	if place != filepath.Join(folders[1], artifact.DeltaStoreFile) {
		t.Errorf("it is used from %q", place)
	}
	well(t, k, 2)
}

// set is what stands in the only set.
func set(t *testing.T, k stores.Manager) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(k.Sets, "s.yaml"))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// A rollback to a release whose store is away is refused, for good: its sets do not
// count later, when its medium is plugged in for something else.
func TestRollbackToWhatIsAway(t *testing.T) {
	folders, _ := chain(t, 2)
	k := keep(t, folders[0], "100m")
	k.KeepPrevious = 1
	medium := filepath.Join(t.TempDir(), "medium")
	fixtures.Run(t, "cp", "-r", folders[1], medium)
	bring(t, k, stores.AttachOptions{Source: medium, InPlace: true})
	bring(t, k, stores.AttachOptions{Source: folders[2]})
	newest := set(t, k)
	reboot(t, k)
	if err := os.Rename(medium, medium+".out"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Rollback(t.Context()); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("%v", err)
	}
	if err := os.Rename(medium+".out", medium); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	well(t, k, 2)
	if got := set(t, k); got != newest {
		t.Errorf("sets changed by themselves:\n%s", got)
	}
}

// Somebody's own set has the name of one that comes with a store: a rollback gives it
// back.
func TestOwnSetOfTheSameName(t *testing.T) {
	folders, pins := chain(t, 1)
	k := keep(t, folders[0], "100m")
	k.KeepPrevious = 1
	fixtures.Run(t, "umount", k.Slots[0]) // a node without a store of its own
	own := string(sample.SetNamed("own", pins[0]))
	if err := errors.Join(os.MkdirAll(k.Sets, 0o755), os.WriteFile(filepath.Join(k.Sets, "s.yaml"), []byte(own),
		0o644)); err != nil {
		t.Fatal(err)
	}
	bring(t, k, stores.AttachOptions{Source: folders[0]})
	if got := set(t, k); got == own {
		t.Error("the set of the store does not count")
	}
	if _, err := k.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if got := set(t, k); got != own {
		t.Errorf("after the rollback:\n%s", got)
	}
}

// What is in an image gives nobody on the node root, or a device.
func TestStoresAreNotTrusted(t *testing.T) {
	folders, _ := chain(t, 1)
	k := attachedTo(t, folders)
	var fs unix.Statfs_t
	if err := unix.Statfs(k.Slots[1], &fs); err != nil {
		t.Fatal(err)
	}
	const want = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV
	if fs.Flags&want != want {
		t.Errorf("flags of the mount: %#x", fs.Flags)
	}
}

// A store that would keep CRI-O from listing any image is refused, whoever made it.
func TestStoreThatWouldHideTheOthers(t *testing.T) {
	folders, _ := chain(t, 1)
	k := keep(t, folders[0], "100m")
	for name, change := range map[string]string{
		"it hides what it needs": `echo '{"version":1,"name":"x","bases":[],"needs":[]}' >pinbox/delta.json`,
		"its records are a pipe": "rm overlay-images/images.json && mkfifo overlay-images/images.json",
	} {
		dir := t.TempDir()
		tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "delta.squashfs")
		fixtures.Run(t, "unsquashfs", "-d", tree, filepath.Join(folders[1], artifact.DeltaStoreFile))
		fixtures.Run(t, "sh", "-ec", `cd "$0" && `+change, tree)
		fixtures.Run(t, "mksquashfs", tree, file, "-comp", "zstd")
		sum := strings.Fields(fixtures.Run(t, "sha256sum", file))[0]
		_, err := k.Attach(t.Context(), stores.AttachOptions{Source: file, Digest: digest.Digest("sha256:" + sum)})
		if !errors.Is(err, stores.ErrNotStore) {
			t.Errorf("%s: %v", name, err)
		}
	}
	nothing(t, k)
}
