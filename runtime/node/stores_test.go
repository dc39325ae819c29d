package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
)

// buildDeltas builds an appliance and deltas, each with the store before it as base, and returns
// their folders and pins.
func buildDeltas(t *testing.T, deltas int) (folders, pins []string) {
	t.Helper()
	return buildReleases(t, deltas, 0)
}

// buildReleases is buildDeltas whose releases have numbers, each greater than the one before by step.
func buildReleases(t *testing.T, deltas int, step int64) (folders, pins []string) {
	t.Helper()
	for n := range deltas + 1 {
		from := folders
		folder, pin := once(t, fmt.Sprintf("release %d of %d", n, step), func(r *sample.Registry, out string) (pins []string) {
			sizes := []int{1000}
			for layer := range n {
				sizes = append(sizes, 2000+layer)
			}
			pin := pushImage(t, r, fmt.Sprintf("app/%d", step), sizes...) // chains have other pins
			o := appliance.Options(t, sample.SetNamed("s", pin))
			o.Appliance.Metadata.Release, o.Out = int64(n+1)*step, out
			if n == 0 {
				appliance.Build(t, o)
			} else {
				o.From = from[n-1:]
				buildDelta(t, o)
			}
			return []string{pin}
		})
		folders, pins = append(folders, folder), append(pins, pin...)
	}
	return folders, pins
}

func buildDelta(t *testing.T, o builder.Options) {
	t.Helper()
	if _, err := builder.Delta(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// made is what tests share, by its name.
var made sync.Map

// artifacts are what a test has made for all.
type artifacts struct {
	once   sync.Once
	folder string
	pins   []string
}

// sharedRegistry runs until the process ends.
var sharedRegistry = sync.OnceValues(func() (*sample.Registry, error) { return sample.Serve(nil) })

func TestMain(m *testing.M) { fixtures.Main(m) }

// once lets make write a folder, of images in a registry, when the first test asks for it. It returns a copy, which the
// test may change, and the pins that make returned.
func once(
	t *testing.T, name string, make func(r *sample.Registry, folder string) (pins []string),
) (folder string, pins []string) {
	t.Helper()
	fixtures.NeedRoot(t)
	value, _ := made.LoadOrStore(name, &artifacts{})
	a := value.(*artifacts)
	a.once.Do(func() {
		registry, err := sharedRegistry()
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(fixtures.Lasting{TB: t}.TempDir(), "folder")
		a.pins = make(registry, folder)
		a.folder = folder
	})
	if a.folder == "" {
		t.Fatalf("another test has failed to make: %s", name)
	}
	folder = filepath.Join(t.TempDir(), "folder")
	fixtures.Run(t, "cp", "-r", a.folder, folder)
	return folder, slices.Clone(a.pins)
}

func pushImage(t *testing.T, r *sample.Registry, repository string, sizes ...int) string {
	t.Helper()
	pin, err := r.PushStack(t.Context(), repository, sizes...)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// newManagerWithDeltas is a manager to which all deltas of a chain are attached.
func newManagerWithDeltas(t *testing.T, folders []string) stores.Manager {
	t.Helper()
	m := newManager(t, folders[0], "100m")
	m.KeepPrevious = 1
	for _, folder := range folders[1:] {
		attach(t, m, stores.AttachOptions{Source: folder})
	}
	return m
}

func attach(t *testing.T, m stores.Manager, o stores.AttachOptions) stores.Store {
	t.Helper()
	a, err := m.Attach(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return a.Store
}

// reboot unmounts all stores but the appliance's own.
func reboot(t *testing.T, m stores.Manager) {
	t.Helper()
	for _, slot := range m.Slots[1:] {
		if err := syscall.Unmount(slot, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) &&
			!errors.Is(err, syscall.ENOENT) {
			t.Fatal(err)
		}
	}
}

// wantMounted checks that n stores are attached, and that all are mounted.
func wantMounted(t *testing.T, m stores.Manager, n int) {
	t.Helper()
	all, err := m.Status(t.Context())
	if err != nil || len(all) != n {
		t.Errorf("got %d stores, %v, want %d", len(all), err, n)
	}
	for _, s := range all {
		if s.Problem != nil {
			t.Errorf("slot %s: got %v, want a mounted store", s.Slot, s.Problem)
		}
	}
}

// busyMounter returns EBUSY for every unmount.
type busyMounter struct{ mount.Direct }

func (busyMounter) Unmount(context.Context, string) error { return syscall.EBUSY }

// A mount that the service manager cannot unmount is detached, and does not prevent other changes.
func TestUnmountBusy(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManagerWithDeltas(t, folders)
	m.Mounter = busyMounter{}
	if _, err := m.Rollback(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(m.Sets, "s.yaml")); err != nil { // it has an image of the first
		t.Fatal(err)
	}
	if _, err := m.Detach(t.Context(), "2", emptyMainStore(t)); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
}

// Without a state file, it is unknown which stores are attached: their files are not removed as
// leftovers of a killed process, and can be attached again.
func TestMissingState(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManagerWithDeltas(t, folders)
	for _, name := range []string{"state.json", "state.json.copy"} {
		if err := os.Remove(filepath.Join(m.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Reconcile(t.Context(), nil); !errors.Is(err, stores.ErrState) {
		t.Errorf("got %v, want %v", err, stores.ErrState)
	}
	reboot(t, m)
	moved := m.Dir + ".moved"
	if err := os.Rename(m.Dir, moved); err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders[1:] {
		sum := strings.Fields(fixtures.Run(t, "sha256sum", filepath.Join(folder, layout.DeltaStoreFile)))[0]
		attach(t, m, stores.AttachOptions{
			Source: filepath.Join(moved, sum+".squashfs"), Digest: digest.Digest("sha256:" + sum),
		})
	}
	wantMounted(t, m, 2)
}

// emptyMainStore is the graph root of an empty main store.
func emptyMainStore(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "overlay-layers"), 0o700); err != nil {
		t.Fatal(err)
	}
	return root
}

// compact compacts the attached stores.
func compact(t *testing.T, m stores.Manager) stores.Compaction {
	t.Helper()
	f, err := m.Compact(t.Context(), stores.CompactOptions{GraphRoots: []string{emptyMainStore(t)}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// failingMounter cannot mount one file.
type failingMounter struct {
	mount.Direct
	file string
}

func (p failingMounter) Mount(ctx context.Context, m mount.Mount) error {
	if filepath.Base(m.What) == p.file {
		return syscall.EIO
	}
	return p.Direct.Mount(ctx, m)
}

// If the compacted store cannot be mounted, the stores that it was made of stay attached.
func TestCompactedStoreCannotBeMounted(t *testing.T) {
	folders, _ := buildDeltas(t, 3)
	m := newManagerWithDeltas(t, folders)
	f := compact(t, m)
	m.Mounter = failingMounter{file: f.Store.ID.Encoded() + ".squashfs"}
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); !errors.Is(err, stores.ErrNotReplaced) ||
		!errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want %v: %v", err, stores.ErrNotReplaced, syscall.EIO)
	}
	wantMounted(t, m, 3)
	compact(t, m)
	m.Mounter = mount.Direct{}
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
	entries, err := os.ReadDir(m.Dir)
	if err != nil || len(entries) != 5 {
		t.Errorf("got the files %v, %v, want the compacted store, two locks, the state and its copy", entries, err)
	}
}

// Compaction keeps an image of a dropped release that a set asks for. If a set asks for another one
// afterwards, the compacted store does not replace the others.
func TestCompactionKeepsImagesOfSets(t *testing.T) {
	folders, pins := buildDeltas(t, 4)
	m := newManagerWithDeltas(t, folders)
	addSet := func(name, pin string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.Sets, name+".yaml"), []byte(sample.SetNamed(name, pin)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	addSet("first", pins[1])
	compact(t, m)
	addSet("second", pins[2])
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); !errors.Is(err, stores.ErrNotReplaced) ||
		!strings.Contains(err.Error(), pins[2]) {
		t.Errorf("got %v, want %v for %s", err, stores.ErrNotReplaced, pins[2])
	}
	wantMounted(t, m, 4)
	if err := os.Remove(filepath.Join(m.Sets, "second.yaml")); err != nil {
		t.Fatal(err)
	}
	compacted := compact(t, m).Store
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
	for n, want := range []bool{1: true, 2: false, 3: true, 4: true} {
		for _, name := range []string{"overlay-images/images.json", "pinbox/pinbox.lock.json"} {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(m.Slots[0]), "5", name))
			if n > 0 && (err != nil || strings.Contains(string(text), pins[n]) != want) {
				t.Errorf("%s: got %v for the image %d of %d, want it listed: %v", name, err, n, compacted.Images, want)
			}
		}
	}
}

// A second attach of a store whose file is missing or damaged restores the file, from any source.
func TestAttachRestoresFiles(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManagerWithDeltas(t, folders)
	all, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.Dir, all[0].ID.Encoded()+".squashfs")
	for name, damage := range map[string]func() error{
		"missing":   func() error { return os.Remove(file) },
		"truncated": func() error { return os.Truncate(file, 4096) },
	} {
		t.Run(name, func(t *testing.T) {
			reboot(t, m)
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			attach(t, m, stores.AttachOptions{Source: folders[1], Auto: true})
			wantMounted(t, m, 2)
		})
	}
	reboot(t, m)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	got := attach(t, m, stores.AttachOptions{Source: folders[1], InPlace: true}).Path
	if want := filepath.Join(folders[1], layout.DeltaStoreFile); got != want {
		t.Errorf("got the path %q, want %q", got, want)
	}
	wantMounted(t, m, 2)
}

// setText is the text of the only set.
func setText(t *testing.T, m stores.Manager) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Sets, "s.yaml"))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// Bug: a rollback to a release whose store is unavailable failed, but its sets were applied later,
// when its medium was plugged in again.
func TestRollbackToAnUnavailableStore(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "100m")
	m.KeepPrevious = 1
	medium := filepath.Join(t.TempDir(), "medium")
	fixtures.Run(t, "cp", "-r", folders[1], medium)
	attach(t, m, stores.AttachOptions{Source: medium, InPlace: true})
	attach(t, m, stores.AttachOptions{Source: folders[2]})
	newest := setText(t, m)
	reboot(t, m)
	if err := os.Rename(medium, medium+".out"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Rollback(t.Context(), ""); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("got %v, want %v", err, stores.ErrMissing)
	}
	if err := os.Rename(medium+".out", medium); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 2)
	if got := setText(t, m); got != newest {
		t.Errorf("got the set\n%s\nwant\n%s", got, newest)
	}
}

// A set of a user has the file name of a set of the store. Bug: the rollback removed it instead of
// restoring it.
func TestRollbackRestoresUsersSet(t *testing.T) {
	folders, pins := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	m.KeepPrevious = 1
	fixtures.Run(t, "umount", m.Slots[0]) // a node without an appliance's own store
	own := string(sample.SetNamed("own", pins[0]))
	if err := errors.Join(os.MkdirAll(m.Sets, 0o755), os.WriteFile(filepath.Join(m.Sets, "s.yaml"), []byte(own),
		0o644)); err != nil {
		t.Fatal(err)
	}
	attach(t, m, stores.AttachOptions{Source: folders[0]})
	if got := setText(t, m); got == own {
		t.Error("after attach: got the set of the user, want the set of the store")
	}
	if _, err := m.Rollback(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if got := setText(t, m); got != own {
		t.Errorf("after rollback: got\n%s\nwant\n%s", got, own)
	}
}

// Setuid programs and device nodes in an image have no effect on the node.
func TestMountOptions(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManagerWithDeltas(t, folders)
	var fs unix.Statfs_t
	if err := unix.Statfs(m.Slots[1], &fs); err != nil {
		t.Fatal(err)
	}
	const want = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV
	if fs.Flags&want != want {
		t.Errorf("got the mount flags %#x, want %#x", fs.Flags, want)
	}
}

// A store with which CRI-O could not list any image is refused.
func TestStoresThatBreakListImages(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	for name, change := range map[string]string{
		"needs that are not listed": `echo '{"version":1,"bases":[],"needs":[]}' >pinbox/delta.json`,
		"records that are a pipe":   "rm overlay-images/images.json && mkfifo overlay-images/images.json",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "delta.squashfs")
			fixtures.Run(t, "unsquashfs", "-d", tree, filepath.Join(folders[1], layout.DeltaStoreFile))
			fixtures.Run(t, "sh", "-ec", `cd "$0" && `+change, tree)
			fixtures.Run(t, "mksquashfs", tree, file, "-comp", "zstd")
			sum := strings.Fields(fixtures.Run(t, "sha256sum", file))[0]
			_, err := m.Attach(t.Context(), stores.AttachOptions{Source: file, Digest: digest.Digest("sha256:" + sum)})
			if !errors.Is(err, stores.ErrNotStore) {
				t.Errorf("got %v, want %v", err, stores.ErrNotStore)
			}
		})
	}
	wantNothingAttached(t, m)
}
