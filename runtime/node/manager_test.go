package node

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
)

// buildLargeDelta builds an appliance, and a delta of some 24 MiB over it.
func buildLargeDelta(t *testing.T) (base, delta string) {
	t.Helper()
	registry, _ := appliance.Registry(t)
	o := appliance.Options(t, sample.SetNamed("s", pushImage(t, registry, "app/a", 1000)))
	appliance.Build(t, o)
	d := appliance.Options(t, sample.SetNamed("s", pushImage(t, registry, "app/a", 1000, 48<<20)))
	d.From = []string{o.Out}
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return o.Out, d.Out
}

// newManager is a keeper in this process, on a disk of so many bytes, with a base.
func newManager(t *testing.T, base string, bytes string) stores.Manager {
	t.Helper()
	state := t.TempDir()
	fixtures.Run(t, "mount", "-t", "tmpfs", "-o", "size="+bytes, "tmpfs", state)
	o := Options{State: state, Sets: filepath.Join(t.TempDir(), "sets.d"), CRIODir: t.TempDir()}
	m, err := o.manager()
	if err != nil {
		t.Fatal(err)
	}
	m.Mounter, m.Configured = stores.DirectMounter{}, m.Slots // there is no CRI-O
	if err := errors.Join(os.MkdirAll(m.Slots[0], 0o755), os.MkdirAll(m.Sets, 0o755)); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro,loop", filepath.Join(base, artifact.StoreFile), m.Slots[0])
	t.Cleanup(func() {
		for _, slot := range m.Slots {
			_ = syscall.Unmount(slot, syscall.MNT_DETACH) // most have nothing
		}
		fixtures.Run(t, "umount", "--lazy", state)
	})
	return m
}

// wantNothingAttached wants a keeper to be as before a store came.
func wantNothingAttached(t *testing.T, m stores.Manager) {
	t.Helper()
	entries, err := os.ReadDir(m.Dir)
	if err != nil || len(entries) > 1 { // the lock
		t.Errorf("left over: %v, %v", entries, err)
	}
	all, err := m.Status()
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// Somebody else fills the disk while a store is copied.
func TestDiskFullDuringTheCopy(t *testing.T) {
	fixtures.NeedRoot(t)
	base, delta := buildLargeDelta(t)
	m := newManager(t, base, "64m")
	filler := filepath.Join(filepath.Dir(m.Dir), "somebody-elses-file")
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta, Progress: func(done, all int64) {
		if done >= 8<<20 {
			_ = os.WriteFile(filler, make([]byte, 64<<20), 0o644) // as far as it goes
		}
	}})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	wantNothingAttached(t, m)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta}); err != nil {
		t.Error(err)
	}
}

// The medium is pulled out while it is copied: the kernel's answer is an I/O error.
func TestMediumPulledOutDuringTheCopy(t *testing.T) {
	fixtures.NeedRoot(t)
	base, delta := buildLargeDelta(t)
	m := newManager(t, base, "100m")
	image := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: delta, Out: image}); err != nil {
		t.Fatal(err)
	}
	device := strings.TrimSpace(fixtures.Run(t, "losetup", "--find", "--show", "--read-only", image))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	whole, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Attach(t.Context(), stores.AttachOptions{Source: device, Progress: func(done, all int64) {
		if done >= 4<<20 {
			_ = os.Truncate(image, 8<<20)
		}
	}})
	if !errors.Is(err, stores.ErrDamaged) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	wantNothingAttached(t, m)
	if err := os.WriteFile(image, whole, 0o644); err != nil { // it is put back
		t.Fatal(err)
	}
	if _, err := m.Attach(t.Context(), stores.AttachOptions{Source: image}); err != nil {
		t.Error(err)
	}
}

// The disk is full when all but the record is written, and when a compaction begins to write:
// what was there goes on, and once there is room so does the rest.
func TestDiskFullAtStateAndCompaction(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "8m")
	attach(t, m, stores.AttachOptions{Source: folders[1]})
	filler := filepath.Join(filepath.Dir(m.Dir), "somebody-elses-file")
	fill := func() { _ = os.WriteFile(filler, make([]byte, 8<<20), 0o644) } // as far as it goes
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[2], Progress: func(done, all int64) {
		if done == all {
			fill()
		}
	}})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	wantMounted(t, m, 1)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	attach(t, m, stores.AttachOptions{Source: folders[2]})
	o := stores.CompactOptions{GraphRoot: emptyMainStore(t), Write: func(ctx context.Context, out io.Writer,
		p stores.CompactPlan) error {
		fill()
		return stores.WriteCompacted(ctx, out, p)
	}}
	if _, err := m.Compact(t.Context(), o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	wantMounted(t, m, 2)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	entries, err := filepath.Glob(filepath.Join(m.Dir, "[^.]*"))
	if err != nil || len(entries) != 3 { // two stores and the state
		t.Errorf("left over: %v, %v", entries, err)
	}
	compact(t, m)
}

// interruptedMounter is a service manager that goes on with a mount when the one who asked for it is
// interrupted meanwhile.
type interruptedMounter struct {
	stores.DirectMounter
	interrupt context.CancelFunc
}

func (h interruptedMounter) Mount(ctx context.Context, m stores.Mount) error {
	h.interrupt()
	if err := h.DirectMounter.Mount(context.WithoutCancel(ctx), m); err != nil {
		return err
	}
	return ctx.Err()
}

// interruptNextMount is a keeper whose next mount is interrupted, and a context for that.
func interruptNextMount(t *testing.T, m stores.Manager) (stores.Manager, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m.Mounter = interruptedMounter{interrupt: cancel}
	return m, ctx
}

// Who is interrupted while a store is mounted leaves nothing that nobody knows of: it
// would keep its slot, and CRI-O would show images that no file is left of.
func TestInterruptedDuringTheMount(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	hasty, ctx := interruptNextMount(t, m)
	if _, err := hasty.Attach(ctx, stores.AttachOptions{Source: folders[1]}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if slot := attach(t, m, stores.AttachOptions{Source: folders[1]}).Slot; slot != "1" {
		t.Errorf("it is in slot %s: what was mounted in slot 1 is not known", slot)
	}
	wantMounted(t, m, 1)
}

// An interruption, as by the time limit of pinbox-mount.service, says nothing against a
// compacted store.
func TestInterruptedDuringTheTrial(t *testing.T) {
	folders, _ := buildDeltas(t, 3)
	m := newManagerWithDeltas(t, folders)
	compact(t, m)
	hasty, ctx := interruptNextMount(t, m)
	if _, err := hasty.Reconcile(ctx, func() bool { return true }); !errors.Is(err, context.Canceled) ||
		errors.Is(err, stores.ErrNotReplaced) {
		t.Errorf("%v", err)
	}
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
}

// A medium is plugged in while another is copied, which may take longer than a command
// waits. Nobody would plug it in again.
func TestAutoAttachWhileAnotherIsCopied(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "100m") // which does not wait
	refused := make(chan error, 1)
	done := make(chan error, 1)
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[1], Progress: func(int64, int64) {
		_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[2]})
		refused <- err
		go func() {
			_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folders[2], Auto: true})
			done <- err
		}()
	}})
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, stores.ErrBusy) {
		t.Errorf("%v", err)
	}
	wantMounted(t, m, 2)
}

// Two media are in when the machine boots, and the one that stands on the other is found
// first. Nobody would plug it in again.
func TestAutoAttachBeforeItsBase(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "100m")
	waits, done := make(chan error, 1), make(chan error, 1)
	o := Options{Waiting: func(why error) { waits <- why }}
	o.Wait = time.Minute
	go func() {
		_, err := o.attach(t.Context(), m, stores.AttachOptions{Source: folders[2], Auto: true})
		done <- err
	}()
	if err := <-waits; !errors.Is(err, stores.ErrNoBase) {
		t.Errorf("%v", err)
	}
	attach(t, m, stores.AttachOptions{Source: folders[1], Auto: true})
	if err := <-done; err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 2)
	o.Wait = 0
	if _, err := o.attach(t.Context(), newManager(t, folders[0], "100m"),
		stores.AttachOptions{Source: folders[2], Auto: true}); !errors.Is(err, stores.ErrNoBase) {
		t.Errorf("%v", err)
	}
}

// observedMounter is a service manager that somebody looks over the shoulder of.
type observedMounter struct {
	stores.DirectMounter
	observe func()
}

func (w observedMounter) Mount(ctx context.Context, m stores.Mount) error {
	w.observe()
	return w.DirectMounter.Mount(ctx, m)
}

func (w observedMounter) Unmount(ctx context.Context, where string) error {
	err := w.DirectMounter.Unmount(ctx, where)
	w.observe()
	return err
}

// Who looks at the stores while one comes or goes is told of no store that is away: it
// would make the node a degraded one, for the moment of a mount.
func TestStatusDuringMountAndUnmount(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	looks := make(chan error, 2)
	m.Mounter = observedMounter{observe: func() {
		go func() {
			all, err := m.Status()
			for _, s := range all {
				err = errors.Join(err, s.Problem)
			}
			looks <- err
		}()
		time.Sleep(200 * time.Millisecond) // for it to look meanwhile; afterwards shows nothing
	}}
	attach(t, m, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := m.Detach(t.Context(), "1", emptyMainStore(t)); err != nil {
		t.Error(err)
	}
	for range cap(looks) {
		if err := <-looks; err != nil {
			t.Error(err)
		}
	}
}

// The medium of an old release stays in its drive, which is what every boot finds. Nobody
// is taken back to that release, however many have come and were made one store since.
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
		t.Error("an old release is current")
	}
	attach(t, m, stores.AttachOptions{Source: folders[1]}) // unless somebody wants it
	if setText(t, m) == newest {
		t.Error("the old release does not come back")
	}
}

// selinuxMounter is a service manager of a kernel with SELinux.
type selinuxMounter struct {
	stores.DirectMounter
	contexts *[]string
}

func (l selinuxMounter) Mount(ctx context.Context, m stores.Mount) error {
	m.Options = slices.DeleteFunc(slices.Clone(m.Options), func(option string) bool {
		is := strings.HasPrefix(option, "context=")
		if is {
			*l.contexts = append(*l.contexts, option)
		}
		return is
	})
	return l.DirectMounter.Mount(ctx, m)
}

// At a boot at which nobody can read the context, the one of the last attach counts: no
// container may read what has none.
func TestSELinuxContextIsStored(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	var given []string
	m.Mounter, m.SELinuxContext = selinuxMounter{contexts: &given}, "system_u:object_r:container_ro_file_t:s0"
	attach(t, m, stores.AttachOptions{Source: folders[1]})
	reboot(t, m)
	m.SELinuxContext, m.Unconfigured = "", true
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
	if len(given) != 2 || given[0] != given[1] {
		t.Errorf("contexts: %q", given)
	}
}
