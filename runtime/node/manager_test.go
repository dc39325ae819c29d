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

// large builds an appliance, and a delta of some 24 MiB over it.
func large(t *testing.T) (base, delta string) {
	t.Helper()
	registry, _ := appliance.Registry(t)
	o := appliance.Options(t, sample.SetNamed("s", pushed(t, registry, "app/a", 1000)))
	appliance.Build(t, o)
	d := appliance.Options(t, sample.SetNamed("s", pushed(t, registry, "app/a", 1000, 48<<20)))
	d.From = []string{o.Out}
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return o.Out, d.Out
}

// keep is a keeper in this process, on a disk of so many bytes, with a base.
func keep(t *testing.T, base string, bytes string) stores.Manager {
	t.Helper()
	state := t.TempDir()
	fixtures.Run(t, "mount", "-t", "tmpfs", "-o", "size="+bytes, "tmpfs", state)
	o := Options{State: state, Sets: filepath.Join(t.TempDir(), "sets.d"), CRIODir: t.TempDir()}
	k, err := o.manager()
	if err != nil {
		t.Fatal(err)
	}
	k.Mounter, k.Configured = stores.DirectMounter{}, k.Slots // there is no CRI-O
	if err := errors.Join(os.MkdirAll(k.Slots[0], 0o755), os.MkdirAll(k.Sets, 0o755)); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro,loop", filepath.Join(base, artifact.StoreFile), k.Slots[0])
	t.Cleanup(func() {
		for _, slot := range k.Slots {
			_ = syscall.Unmount(slot, syscall.MNT_DETACH) // most have nothing
		}
		fixtures.Run(t, "umount", "--lazy", state)
	})
	return k
}

// nothing wants a keeper to be as before a store came.
func nothing(t *testing.T, k stores.Manager) {
	t.Helper()
	entries, err := os.ReadDir(k.Dir)
	if err != nil || len(entries) > 1 { // the lock
		t.Errorf("left over: %v, %v", entries, err)
	}
	all, err := k.Status()
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// Somebody else fills the disk while a store is copied.
func TestDiskFullDuringTheCopy(t *testing.T) {
	fixtures.NeedRoot(t)
	base, delta := large(t)
	k := keep(t, base, "64m")
	filler := filepath.Join(filepath.Dir(k.Dir), "somebody-elses-file")
	_, err := k.Attach(t.Context(), stores.AttachOptions{Source: delta, Progress: func(done, all int64) {
		if done >= 8<<20 {
			_ = os.WriteFile(filler, make([]byte, 64<<20), 0o644) // as far as it goes
		}
	}})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	nothing(t, k)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Attach(t.Context(), stores.AttachOptions{Source: delta}); err != nil {
		t.Error(err)
	}
}

// The medium is pulled out while it is copied: the kernel's answer is an I/O error.
func TestMediumPulledOutDuringTheCopy(t *testing.T) {
	fixtures.NeedRoot(t)
	base, delta := large(t)
	k := keep(t, base, "100m")
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
	_, err = k.Attach(t.Context(), stores.AttachOptions{Source: device, Progress: func(done, all int64) {
		if done >= 4<<20 {
			_ = os.Truncate(image, 8<<20)
		}
	}})
	if !errors.Is(err, stores.ErrDamaged) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	nothing(t, k)
	if err := os.WriteFile(image, whole, 0o644); err != nil { // it is put back
		t.Fatal(err)
	}
	if _, err := k.Attach(t.Context(), stores.AttachOptions{Source: image}); err != nil {
		t.Error(err)
	}
}

// The disk is full when all but the record is written, and when a compaction begins to write:
// what was there goes on, and once there is room so does the rest.
func TestDiskFullElsewhere(t *testing.T) {
	folders, _ := chain(t, 2)
	k := keep(t, folders[0], "8m")
	bring(t, k, stores.AttachOptions{Source: folders[1]})
	filler := filepath.Join(filepath.Dir(k.Dir), "somebody-elses-file")
	fill := func() { _ = os.WriteFile(filler, make([]byte, 8<<20), 0o644) } // as far as it goes
	_, err := k.Attach(t.Context(), stores.AttachOptions{Source: folders[2], Progress: func(done, all int64) {
		if done == all {
			fill()
		}
	}})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	well(t, k, 1)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	bring(t, k, stores.AttachOptions{Source: folders[2]})
	o := stores.CompactOptions{GraphRoot: mainStore(t), Write: func(ctx context.Context, out io.Writer,
		p stores.CompactPlan) error {
		fill()
		return stores.WriteCompacted(ctx, out, p)
	}}
	if _, err := k.Compact(t.Context(), o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	well(t, k, 2)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	entries, err := filepath.Glob(filepath.Join(k.Dir, "[^.]*"))
	if err != nil || len(entries) != 3 { // two stores and the state
		t.Errorf("left over: %v, %v", entries, err)
	}
	compacts(t, k)
}

// hasty is a service manager that goes on with a mount when the one who asked for it is
// interrupted meanwhile.
type hasty struct {
	stores.DirectMounter
	interrupt context.CancelFunc
}

func (h hasty) Mount(ctx context.Context, m stores.Mount) error {
	h.interrupt()
	if err := h.DirectMounter.Mount(context.WithoutCancel(ctx), m); err != nil {
		return err
	}
	return ctx.Err()
}

// interrupted is a keeper whose next mount is interrupted, and a context for that.
func interrupted(t *testing.T, k stores.Manager) (stores.Manager, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k.Mounter = hasty{interrupt: cancel}
	return k, ctx
}

// Who is interrupted while a store is mounted leaves nothing that nobody knows of: it
// would keep its slot, and CRI-O would show images that no file is left of.
func TestInterruptedDuringTheMount(t *testing.T) {
	folders, _ := chain(t, 1)
	k := keep(t, folders[0], "100m")
	hasty, ctx := interrupted(t, k)
	if _, err := hasty.Attach(ctx, stores.AttachOptions{Source: folders[1]}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if slot := bring(t, k, stores.AttachOptions{Source: folders[1]}).Slot; slot != "1" {
		t.Errorf("it is in slot %s: what was mounted in slot 1 is not known", slot)
	}
	well(t, k, 1)
}

// An interruption, as by the time limit of pinbox-mount.service, says nothing against a
// compacted store.
func TestInterruptedDuringTheTrial(t *testing.T) {
	folders, _ := chain(t, 3)
	k := attachedTo(t, folders)
	compacts(t, k)
	hasty, ctx := interrupted(t, k)
	if _, err := hasty.Reconcile(ctx, func() bool { return true }); !errors.Is(err, context.Canceled) ||
		errors.Is(err, stores.ErrNotReplaced) {
		t.Errorf("%v", err)
	}
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
}

// A medium is plugged in while another is copied, which may take longer than a command
// waits. Nobody would plug it in again.
func TestAutoAttachWhileAnotherIsCopied(t *testing.T) {
	folders, _ := chain(t, 2)
	k := keep(t, folders[0], "100m") // which does not wait
	refused := make(chan error, 1)
	done := make(chan error, 1)
	_, err := k.Attach(t.Context(), stores.AttachOptions{Source: folders[1], Progress: func(int64, int64) {
		_, err := k.Attach(t.Context(), stores.AttachOptions{Source: folders[2]})
		refused <- err
		go func() {
			_, err := k.Attach(t.Context(), stores.AttachOptions{Source: folders[2], Auto: true})
			done <- err
		}()
	}})
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, stores.ErrBusy) {
		t.Errorf("%v", err)
	}
	well(t, k, 2)
}

// Two media are in when the machine boots, and the one that stands on the other is found
// first. Nobody would plug it in again.
func TestAutoAttachBeforeItsBase(t *testing.T) {
	folders, _ := chain(t, 2)
	k := keep(t, folders[0], "100m")
	waits, done := make(chan error, 1), make(chan error, 1)
	o := Options{Waiting: func(why error) { waits <- why }}
	o.Wait = time.Minute
	go func() {
		_, err := o.attach(t.Context(), k, stores.AttachOptions{Source: folders[2], Auto: true})
		done <- err
	}()
	if err := <-waits; !errors.Is(err, stores.ErrNoBase) {
		t.Errorf("%v", err)
	}
	bring(t, k, stores.AttachOptions{Source: folders[1], Auto: true})
	if err := <-done; err != nil {
		t.Error(err)
	}
	well(t, k, 2)
	o.Wait = 0
	if _, err := o.attach(t.Context(), keep(t, folders[0], "100m"),
		stores.AttachOptions{Source: folders[2], Auto: true}); !errors.Is(err, stores.ErrNoBase) {
		t.Errorf("%v", err)
	}
}

// watched is a service manager that somebody looks over the shoulder of.
type watched struct {
	stores.DirectMounter
	look func()
}

func (w watched) Mount(ctx context.Context, m stores.Mount) error {
	w.look()
	return w.DirectMounter.Mount(ctx, m)
}

func (w watched) Unmount(ctx context.Context, where string) error {
	err := w.DirectMounter.Unmount(ctx, where)
	w.look()
	return err
}

// Who looks at the stores while one comes or goes is told of no store that is away: it
// would make the node a degraded one, for the moment of a mount.
func TestLookWhileAStoreComesAndGoes(t *testing.T) {
	folders, _ := chain(t, 1)
	k := keep(t, folders[0], "100m")
	looks := make(chan error, 2)
	k.Mounter = watched{look: func() {
		go func() {
			all, err := k.Status()
			for _, s := range all {
				err = errors.Join(err, s.Problem)
			}
			looks <- err
		}()
		time.Sleep(200 * time.Millisecond) // for it to look meanwhile; afterwards shows nothing
	}}
	bring(t, k, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := k.Detach(t.Context(), "1", mainStore(t)); err != nil {
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
func TestOldMediumStaysIn(t *testing.T) {
	folders, _ := chain(t, 4)
	k := attachedTo(t, folders)
	newest := set(t, k)
	compacts(t, k)
	reboot(t, k)
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	if _, err := k.Attach(t.Context(), stores.AttachOptions{Source: folders[1], Auto: true}); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
	if set(t, k) != newest {
		t.Error("an old release is current")
	}
	bring(t, k, stores.AttachOptions{Source: folders[1]}) // unless somebody wants it
	if set(t, k) == newest {
		t.Error("the old release does not come back")
	}
}

// labelling is a service manager of a kernel with SELinux.
type labelling struct {
	stores.DirectMounter
	given *[]string
}

func (l labelling) Mount(ctx context.Context, m stores.Mount) error {
	m.Options = slices.DeleteFunc(slices.Clone(m.Options), func(option string) bool {
		is := strings.HasPrefix(option, "context=")
		if is {
			*l.given = append(*l.given, option)
		}
		return is
	})
	return l.DirectMounter.Mount(ctx, m)
}

// At a boot at which nobody can read the context, the one of the last attach counts: no
// container may read what has none.
func TestContextIsRemembered(t *testing.T) {
	folders, _ := chain(t, 1)
	k := keep(t, folders[0], "100m")
	var given []string
	k.Mounter, k.SELinuxContext = labelling{given: &given}, "system_u:object_r:container_ro_file_t:s0"
	bring(t, k, stores.AttachOptions{Source: folders[1]})
	reboot(t, k)
	k.SELinuxContext, k.Unconfigured = "", true
	if _, err := k.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
	if len(given) != 2 || given[0] != given[1] {
		t.Errorf("contexts: %q", given)
	}
}
