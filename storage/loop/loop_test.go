package loop_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/loop"
)

// blocks writes a file of n blocks of 4096 bytes: the first of "a", the next of "b".
func blocks(t *testing.T, n int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	var content []byte
	for i := range n {
		content = append(content, bytes.Repeat([]byte{'a' + byte(i)}, 4096)...)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// Devices of all of a file and of parts of it exist at the same time, and processes that take the same free
// device take another one.
func TestParts(t *testing.T) {
	fixtures.NeedRoot(t)
	file := blocks(t, 8)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for from := range int64(8) {
		for _, size := range []int64{0, 4096} {
			all.Go(func() {
				device, err := loop.Open(file, from*4096, size)
				if err != nil {
					t.Errorf("got %v, want a device", err)
					return
				}
				defer device.Close()
				want := content[from*4096:]
				if size > 0 {
					want = want[:size]
				}
				if got, err := io.ReadAll(device); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %d bytes, %v, want the %d bytes from %d", len(got), err, len(want), from*4096)
				}
			})
		}
	}
	all.Wait()
}

// The kernel removes a device when it is closed, and until then nobody can write to it.
func TestDeviceEnds(t *testing.T) {
	fixtures.NeedRoot(t)
	device, err := loop.Open(blocks(t, 1), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(device.Name(), os.O_WRONLY, 0); err == nil {
		_, err = f.Write(make([]byte, 512))
		if err = errors.Join(err, f.Sync(), f.Close()); !errors.Is(err, syscall.EPERM) {
			t.Errorf("got %v from a write, want EPERM", err)
		}
	}
	backing := filepath.Join("/sys/block", filepath.Base(device.Name()), "loop/backing_file")
	if _, err := os.Stat(backing); err != nil {
		t.Fatal(err)
	}
	if err := device.Close(); err != nil {
		t.Fatal(err)
	}
	if name, err := os.ReadFile(backing); err == nil && strings.Contains(string(name), t.Name()) {
		t.Errorf("got a device of %s after its end, want none", name)
	}
}

func TestErrorNamesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing")
	_, err := loop.Open(name, 0, 0)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "loop device of "+name) {
		t.Errorf("got %v, want that %s does not exist", err, name)
	}
}
