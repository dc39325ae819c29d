package transfer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/transfer"
)

// soon is a limit that nothing keeps which hangs.
const soon = 50 * time.Millisecond

// Opening a device that does not answer ends, and what is opened later is closed. A pipe without a writer is like
// such a device.
func TestOpenThatHangs(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := transfer.Open(pipe, os.O_RDONLY, soon)
	if f != nil || !errors.Is(err, transfer.ErrDevice) || !strings.Contains(err.Error(), pipe) {
		t.Errorf("got %v, %v, want %v and the name", f, err, transfer.ErrDevice)
	}
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // the goroutine opens the other end
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	fixtures.Until(t, func() error {
		if _, err := writer.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			return fmt.Errorf("got %w, want that the other end is closed", err)
		}
		return nil
	})
}

// A file system that does not answer: nobody reads the requests of this one.
func TestStatThatHangs(t *testing.T) {
	fixtures.NeedRoot(t)
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fuse.Close() // ends all requests
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())
	if err := syscall.Mount("dead", dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	name := filepath.Join(dir, "store.squashfs")
	if _, err := transfer.Stat(name, soon); !errors.Is(err, transfer.ErrDevice) || !strings.Contains(err.Error(), name) {
		t.Errorf("stat: got %v, want %v and the name", err, transfer.ErrDevice)
	}
	if _, err := transfer.Open(name, os.O_RDONLY, soon); !errors.Is(err, transfer.ErrDevice) {
		t.Errorf("open: got %v, want %v", err, transfer.ErrDevice)
	}
}

// What answers in time is passed on, errors too.
func TestOpenThatAnswers(t *testing.T) {
	if _, err := transfer.Open(filepath.Join(t.TempDir(), "none"), os.O_RDONLY, time.Minute); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open: got %v, want %v", err, os.ErrNotExist)
	}
	if fi, err := transfer.Stat(t.TempDir(), time.Minute); err != nil || !fi.IsDir() {
		t.Errorf("stat: got %v, %v, want a folder", fi, err)
	}
}
