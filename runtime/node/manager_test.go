package node

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
)

// buildLargeDelta builds an appliance, and a delta of about 12 MiB with it as base.
func buildLargeDelta(t *testing.T) (base, delta string) {
	t.Helper()
	folder, _ := once(t, "large", func(r *sample.Registry, folder string) []string {
		o := appliance.Options(t, sample.SetNamed("s", pushImage(t, r, "app/large", 1000)))
		o.Out = filepath.Join(folder, "base")
		d := appliance.Options(t, sample.SetNamed("s", pushImage(t, r, "app/large", 1000, 48<<20)))
		d.From, d.Out = []string{o.Out}, filepath.Join(folder, "delta")
		appliance.Build(t, o)
		buildDelta(t, d)
		return nil
	})
	return filepath.Join(folder, "base"), filepath.Join(folder, "delta")
}

// newManager makes a manager with its state on a disk of this size, and with the appliance's store
// mounted.
func newManager(t *testing.T, base string, bytes string) stores.Manager {
	t.Helper()
	state := t.TempDir()
	fixtures.Run(t, "mount", "-t", "tmpfs", "-o", "size="+bytes, "tmpfs", state)
	t.Cleanup(func() { fixtures.Run(t, "umount", "--lazy", state) })
	return newManagerIn(t, base, state, filepath.Join(t.TempDir(), "sets.d"))
}

// newManagerIn is newManager with folders for the state and the sets.
func newManagerIn(t *testing.T, base, state, sets string) stores.Manager {
	t.Helper()
	etc := filepath.Dir(sets)
	if _, err := os.Stat(filepath.Join(etc, "node.json")); errors.Is(err, fs.ErrNotExist) { // most stores of tests have no sets
		config := layout.NodeConfig{Sets: layout.SetsOptional}.Render()
		if err := os.WriteFile(filepath.Join(etc, "node.json"), config, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Open(Settings{Set: []string{"stateDir=" + state, "setsDir=" + sets, "crioDir=" + t.TempDir(), "keysDir=" + filepath.Join(etc, "keys.d")}, Config: filepath.Join(etc, "node.json")})
	m, err := o.manager()
	if err != nil {
		t.Fatal(err)
	}
	m.Mounter, m.Configured = mount.Direct{}, m.Slots // there is no CRI-O
	m.Appliance = appliance.Lock(t, base).ReleaseID
	if err := errors.Join(os.MkdirAll(m.Slots[0], 0o755), os.MkdirAll(m.Sets, 0o755)); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro,loop", filepath.Join(base, layout.StoreFile), m.Slots[0])
	t.Cleanup(func() {
		for _, slot := range m.Slots {
			_ = syscall.Unmount(slot, syscall.MNT_DETACH) // if a store is mounted
		}
	})
	return m
}

// wantNothingAttached checks that no store is attached, and that no file is left.
func wantNothingAttached(t *testing.T, m stores.Manager) {
	t.Helper()
	entries, err := os.ReadDir(m.Dir)
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), layout.StateFile) })
	if err != nil || len(entries) > 1 { // the lock
		t.Errorf("got the files %v, %v, want the lock, and the state at most", entries, err)
	}
	all, err := m.Status(t.Context())
	if err != nil || len(all) > 0 {
		t.Errorf("got %v, %v, want no store", all, err)
	}
}

// Another program fills the disk while a store is copied.
func TestDiskFullDuringTheCopy(t *testing.T) {
	fixtures.NeedRoot(t)
	base, delta := buildLargeDelta(t)
	m := newManager(t, base, "64m")
	filler := filepath.Join(filepath.Dir(m.Dir), "other-file")
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta, Progress: reading(func(done, all int64) {
		if done >= 8<<20 {
			_ = os.WriteFile(filler, make([]byte, 64<<20), 0o644) // as far as it goes
		}
	})})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
	}
	wantNothingAttached(t, m)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta}); err != nil {
		t.Error(err)
	}
}

// The medium is removed while it is copied: the kernel returns an I/O error.
func TestMediumPulledOutDuringTheCopy(t *testing.T) {
	fixtures.NeedRoot(t)
	base, delta := buildLargeDelta(t)
	m := newManager(t, base, "100m")
	image := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: delta, Out: image}); err != nil {
		t.Fatal(err)
	}
	device := fixtures.LoopDevice(t, image, "--read-only")
	content, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Attach(t.Context(), stores.AttachOptions{Source: device, Progress: reading(func(done, all int64) {
		if done >= 4<<20 {
			_ = os.Truncate(image, 8<<20)
		}
	})})
	if !errors.Is(err, stores.ErrDamaged) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want %v: %v", err, stores.ErrDamaged, syscall.EIO)
	}
	wantNothingAttached(t, m)
	if err := os.WriteFile(image, content, 0o644); err != nil { // it is plugged in again
		t.Fatal(err)
	}
	if _, err := m.Attach(t.Context(), stores.AttachOptions{Source: image}); err != nil {
		t.Error(err)
	}
}

// The disk is full when an attach writes the state, and when a compaction starts to write: the
// attached stores stay mounted, and both succeed once there is space.
func TestDiskFullAtStateAndCompaction(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "8m")
	attach(t, m, stores.AttachOptions{Source: folders[1]})
	filler := filepath.Join(filepath.Dir(m.Dir), "other-file")
	fill := func() { _ = os.WriteFile(filler, make([]byte, 8<<20), 0o644) } // as far as it goes
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[2], Progress: reading(func(done, all int64) {
		if done == all {
			fill()
		}
	})})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
	}
	wantMounted(t, m, 1)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	attach(t, m, stores.AttachOptions{Source: folders[2]})
	o := stores.CompactOptions{GraphRoots: []string{emptyMainStore(t)}, Write: func(ctx context.Context, out io.Writer,
		p stores.CompactPlan) error {
		fill()
		return stores.WriteCompacted(ctx, out, p)
	}}
	if _, err := m.Compact(t.Context(), o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
	}
	wantMounted(t, m, 2)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	entries, err := filepath.Glob(filepath.Join(m.Dir, "[^.]*"))
	if err != nil || len(entries) != 4 {
		t.Errorf("got the files %v, %v, want two stores, the state and its copy", entries, err)
	}
	compact(t, m)
}

// interruptedMounter cancels the context of the caller during a mount, and completes the mount, as
// systemd does.
type interruptedMounter struct {
	mount.Direct
	interrupt context.CancelFunc
}

func (h interruptedMounter) Mount(ctx context.Context, m mount.Mount) error {
	h.interrupt()
	if err := h.Direct.Mount(context.WithoutCancel(ctx), m); err != nil {
		return err
	}
	return ctx.Err()
}

// interruptNextMount returns a manager whose next mount cancels the returned context.
func interruptNextMount(t *testing.T, m stores.Manager) (stores.Manager, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m.Mounter = interruptedMounter{interrupt: cancel}
	return m, ctx
}

// An attach that is interrupted during the mount leaves no mount that is not in the state: it would
// use a slot, and CRI-O would list images without a file.
func TestInterruptedDuringTheMount(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	interrupted, ctx := interruptNextMount(t, m)
	if _, err := interrupted.Attach(ctx, stores.AttachOptions{Source: folders[1]}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if slot := attach(t, m, stores.AttachOptions{Source: folders[1]}).Slot; slot != "1" {
		t.Errorf("got slot %s, want 1", slot)
	}
	wantMounted(t, m, 1)
}

// Bug: an interruption of the trial mount, such as by the time limit of pinbox-mount.service,
// discarded the compacted store.
func TestInterruptedDuringTheTrial(t *testing.T) {
	folders, _ := buildDeltas(t, 3)
	m := newManagerWithDeltas(t, folders)
	compact(t, m)
	interrupted, ctx := interruptNextMount(t, m)
	if _, err := interrupted.Reconcile(ctx, func() bool { return true }); !errors.Is(err, context.Canceled) ||
		errors.Is(err, stores.ErrNotReplaced) {
		t.Errorf("got %v, want %v only", err, context.Canceled)
	}
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
}

// A medium is plugged in while another one is copied, which may take longer than a command waits.
// An automatic attach waits without a limit, since udev does not try again.
func TestAutoAttachWhileAnotherIsCopied(t *testing.T) {
	folders, _ := buildReleases(t, 2, 1)
	m := newManager(t, folders[0], "100m") // which does not wait
	refused := make(chan error, 1)
	done := make(chan error, 1)
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[1], Progress: reading(func(int64, int64) {
		_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[2]})
		refused <- err
		go func() {
			_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[2], Auto: true})
			done <- err
		}()
	})})
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, stores.ErrBusy) {
		t.Errorf("got %v, want %v", err, stores.ErrBusy)
	}
	wantMounted(t, m, 2)
}

// Two media are in drives at boot, and the one whose store needs the other is found first. Its
// automatic attach waits for the base, since udev does not try again.
func TestAutoAttachBeforeItsBase(t *testing.T) {
	folders, _ := buildReleases(t, 2, 1)
	m := newManager(t, folders[0], "100m")
	waiting, done := make(chan error, 1), make(chan error, 1)
	o := Open(Settings{Wait: time.Minute, Waiting: func(reason error) { waiting <- reason }})
	go func() {
		_, err := o.attach(t.Context(), m, stores.AttachOptions{Source: folders[2], Auto: true})
		done <- err
	}()
	if err := <-waiting; !errors.Is(err, stores.ErrNoBase) {
		t.Errorf("got %v, want %v", err, stores.ErrNoBase)
	}
	attach(t, m, stores.AttachOptions{Source: folders[1], Auto: true})
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 2)
	o.s.Wait = 0
	if _, err := o.attach(t.Context(), newManager(t, folders[0], "100m"),
		stores.AttachOptions{Source: folders[2], Auto: true}); !errors.Is(err, stores.ErrNoBase) {
		t.Errorf("got %v, want %v", err, stores.ErrNoBase)
	}
}

// observedMounter calls observe before each mount and after each unmount.
type observedMounter struct {
	mount.Direct
	observe func()
}

func (w observedMounter) Mount(ctx context.Context, m mount.Mount) error {
	w.observe()
	return w.Direct.Mount(ctx, m)
}

func (w observedMounter) Unmount(ctx context.Context, where string) error {
	err := w.Direct.Unmount(ctx, where)
	w.observe()
	return err
}

// Bug: while a store was mounted or unmounted, Status reported it as unavailable, so that the node
// was degraded for that time.
func TestStatusDuringMountAndUnmount(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	m.Wait = time.Minute // Status holds the lock for a moment, to see whether another holds it
	looks := make(chan error, 2)
	m.Mounter = observedMounter{observe: func() {
		go func() {
			all, err := m.Status(t.Context())
			for _, s := range all {
				err = errors.Join(err, s.Problem)
			}
			looks <- err
		}()
		// Status takes no lock and calls nothing that could tell: it is given time to read during the mount. On a busy
		// machine it may read later, and then finds nothing that could be wrong.
		time.Sleep(200 * time.Millisecond)
	}}
	attach(t, m, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := m.Detach(t.Context(), "1", emptyMainStore(t)); err != nil {
		t.Fatal(err)
	}
	for range cap(looks) {
		if err := <-looks; err != nil {
			t.Error(err)
		}
	}
}

// The medium of an old release stays in its drive, so udev reports it at every boot. The automatic
// attach does not make that release current, even if its store was compacted since.
func TestAutoAttachOfAnOldRelease(t *testing.T) {
	folders, _ := buildDeltas(t, 4)
	m := newManagerWithDeltas(t, folders)
	newest := setText(t, m)
	compact(t, m)
	reboot(t, m)
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	if _, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[1], Auto: true}); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
	if setText(t, m) != newest {
		t.Error("after an automatic attach: got the old release current, want the newest")
	}
	attach(t, m, stores.AttachOptions{Source: folders[1]}) // by a user
	if setText(t, m) == newest {
		t.Error("after an attach: got the newest release current, want the old one")
	}
}

// selinuxMounter records the SELinux contexts of mounts, and mounts without them.
type selinuxMounter struct {
	mount.Direct
	contexts *[]string
}

func (l selinuxMounter) Mount(ctx context.Context, m mount.Mount) error {
	m.Options = slices.DeleteFunc(slices.Clone(m.Options), func(option string) bool {
		is := strings.HasPrefix(option, "context=")
		if is {
			*l.contexts = append(*l.contexts, option)
		}
		return is
	})
	return l.Direct.Mount(ctx, m)
}

// If the SELinux context cannot be read at boot, the context of the last attach is used: containers
// cannot read files without it.
func TestSELinuxContextIsStored(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	var contexts []string
	m.Mounter, m.SELinuxContext = selinuxMounter{contexts: &contexts}, "system_u:object_r:container_ro_file_t:s0"
	attach(t, m, stores.AttachOptions{Source: folders[1]})
	reboot(t, m)
	m.SELinuxContext, m.Unconfigured = "", true
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
	if len(contexts) != 2 || contexts[0] != contexts[1] {
		t.Errorf("got the contexts %q, want the same one twice", contexts)
	}
}
