package stores_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// Stores are mounted at boot although /etc is read-only, as on a damaged disk or an image-based system.
func TestMountWithReadOnlyEtc(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	d.reboot()
	protectSets(t, d)
	if err := d.reconcile(); err != nil {
		t.Errorf("got %v, want no error: nothing has to be written", err)
	}
	d.wantMounted(1)
}

// Sets that could not be written before the power was cut do not keep stores from being mounted.
func TestMountWithPendingSetsAndReadOnlyEtc(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	d.reboot()
	state := filepath.Join(d.Dir, "state.json")
	text, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	write(t, state, strings.Replace(string(text), `"version": 1,`, `"version": 1, "setsPending": true,`, 1))
	write(t, filepath.Join(d.Sets, "s.yaml"), "changed")
	fixtures.Run(t, "mount", "--bind", d.Sets, d.Sets)
	t.Cleanup(func() { _ = syscall.Unmount(d.Sets, syscall.MNT_DETACH) })
	fixtures.Run(t, "mount", "-o", "remount,bind,ro", d.Sets)
	if err := d.reconcile(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("got %v, want that the sets cannot be written", err)
	}
	d.wantMounted(1)
}

// protectSets makes the folder of sets read-only until undo.
func protectSets(t *testing.T, d *testNode) (undo func()) {
	t.Helper()
	fixtures.Run(t, "mount", "--bind", d.Sets, d.Sets)
	undo = func() { _ = syscall.Unmount(d.Sets, syscall.MNT_DETACH) }
	t.Cleanup(undo)
	fixtures.Run(t, "mount", "-o", "remount,bind,ro", d.Sets)
	return undo
}

// A rollback whose sets could not be written is completed by the next one, which went back to
// another one.
func TestRollbackThatFailedIsDoneAgain(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.KeepPrevious = 3
	for n := 1; n < 4; n++ {
		d.attach(stores.AttachOptions{Source: delta(n).folder(t)})
	}
	undo := protectSets(t, d)
	if _, err := d.Rollback(t.Context(), ""); !errors.Is(err, syscall.EROFS) {
		t.Errorf("got %v, want that the sets cannot be written", err)
	}
	undo()
	d.rollback(2)
	d.rollback(3)
}

// Another user cannot open the lock of the state, and so cannot hold it.
func TestLockOfTheStateIsPrivate(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t)})
	for name, want := range map[string]fs.FileMode{"": 0o700, ".lock": 0o600} {
		if fi, err := os.Stat(filepath.Join(d.Dir, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
}
