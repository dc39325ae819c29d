package filelock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/storage/filelock"
)

// lock locks a file.
func lock(t *testing.T, path string, o filelock.Options) (release func()) {
	t.Helper()
	release, err := filelock.Lock(t.Context(), path, 0o600, o)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if filelock.Held(path) {
		t.Error("before the first Lock: got held, want not held")
	}
	release := lock(t, path, filelock.Options{})
	if _, err := filelock.Lock(t.Context(), path, 0o600, filelock.Options{}); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("second lock: got %v, want ErrLocked", err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := filelock.Try(f); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("try: got %v, want ErrLocked", err)
	}
	if !filelock.Held(path) {
		t.Error("got not held, want held")
	}
	release()
	if filelock.Held(path) {
		t.Error("got held, want released")
	}
	if err := filelock.Try(f); err != nil {
		t.Errorf("try after the release: got %v, want no error", err)
	}
}

func TestLockWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		release := lock(t, path, filelock.Options{})
		// Waiting releases the first lock.
		lock(t, path, filelock.Options{Wait: time.Minute, Waiting: release})()

		defer lock(t, path, filelock.Options{})()
		start := time.Now()
		_, err := filelock.Lock(t.Context(), path, 0o600, filelock.Options{Wait: 100 * time.Millisecond})
		if waited := time.Since(start); !errors.Is(err, filelock.ErrLocked) || waited != 100*time.Millisecond {
			t.Errorf("got %v after %v, want ErrLocked after 100 ms", err, waited)
		}
	})
}

func TestLockEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		defer lock(t, path, filelock.Options{})()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := filelock.Lock(ctx, path, 0o600, filelock.Options{Wait: time.Minute, Waiting: cancel})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

// A child process keeps an inherited lock.
func TestInherit(t *testing.T) {
	for _, inherit := range []bool{true, false} {
		t.Run(fmt.Sprintf("Inherit %v", inherit), func(t *testing.T) { testInherit(t, inherit) })
	}
}

func testInherit(t *testing.T, inherit bool) {
	path := filepath.Join(t.TempDir(), "lock")
	release := lock(t, path, filelock.Options{Inherit: inherit})
	child := exec.Command("cat") // ends with its input
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	release()
	if got := filelock.Held(path); got != inherit {
		t.Errorf("while the child runs: got held %v, want %v", got, inherit)
	}
	if err := errors.Join(input.Close(), child.Wait()); err != nil {
		t.Fatal(err)
	}
	if filelock.Held(path) {
		t.Error("after the child: got held, want released")
	}
}
