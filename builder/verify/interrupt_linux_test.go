package verify_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
)

// whenFilled calls act once there is a file in a folder, if that is before the end of the test.
func whenFilled(t *testing.T, dir string, act func()) {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		_, err = unix.InotifyAddWatch(watch, dir, unix.IN_CREATE)
	}
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(watch), "inotify")
	t.Cleanup(func() { _ = events.Close() }) // ends Read
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		act()
		return
	}
	go func() {
		if _, err := events.Read(make([]byte, 4096)); err == nil {
			act()
		}
	}()
}

// An interrupted check leaves no files and no mounts.
func TestInterruptedVerify(t *testing.T) {
	fixtures.NeedRoot(t)
	s := built(t)
	wantNoTemporaryFiles(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := verify.Release(ctx, s.second, verify.Options{
		Bases: []string{s.base},
		Hooks: progress.Hooks{Step: func(name string, _ int64, _ progress.Unit) {
			if name == "check layers" {
				whenFilled(t, os.TempDir(), stop)
			}
		}},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
