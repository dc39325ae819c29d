package input_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/storage/input"
)

// What a user names may be a pipe, as the shell's <(...) is one; the end of its content is read. A device is refused.
func TestNamed(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("content"), 0) }()
	f, err := input.Named(t.Context(), pipe)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(f); string(content) != "content" || err != nil {
		t.Errorf("got %q, %v, want the content", content, err)
	}
	if err := errors.Join(f.Close(), <-written); err != nil {
		t.Error(err)
	}
	if _, err := input.Open(pipe); !errors.Is(err, input.ErrNotRegular) {
		t.Errorf("a pipe in a folder: got %v, want %v", err, input.ErrNotRegular)
	}
	if _, err := input.Named(t.Context(), "/dev/zero"); !errors.Is(err, input.ErrNotRegular) {
		t.Errorf("/dev/zero: got %v, want %v", err, input.ErrNotRegular)
	}
}

// Nothing has to be written to a pipe for the wait to end with the context.
func TestPipeWithoutAWriter(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := input.Named(ctx, pipe); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets the reader that was left to itself end
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// Of a folder, no pipe and no device is opened, whatever its name, and no file is read that is larger than its kind is.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	for _, err := range []error{
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("/dev/zero", filepath.Join(dir, "device")),
		os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600), os.WriteFile(large, nil, 0o600),
		os.Truncate(large, 1<<40), os.Symlink(os.DevNull, filepath.Join(dir, "masked")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pipe", "device"} {
		if _, err := fs.ReadFile(input.Dir(dir), name); !errors.Is(err, input.ErrNotRegular) {
			t.Errorf("%s: got %v, want %v", name, err, input.ErrNotRegular)
		}
		if _, err := input.Config(filepath.Join(dir, name)); !errors.Is(err, input.ErrNotRegular) {
			t.Errorf("%s as a configuration: got %v, want %v", name, err, input.ErrNotRegular)
		}
	}
	if content, err := fs.ReadFile(input.Dir(dir), "file"); string(content) != "content" || err != nil {
		t.Errorf("got %q, %v, want the content", content, err)
	}
	if content, err := fs.ReadFile(input.Dir(dir), "masked"); len(content) > 0 || err != nil {
		t.Errorf("a file that an administrator has masked: got %q, %v, want nothing", content, err)
	}
	if entries, err := fs.ReadDir(input.Dir(dir), "."); len(entries) != 5 || err != nil {
		t.Errorf("got %v, %v, want five entries", entries, err)
	}
	for _, read := range []func(string) ([]byte, error){input.Config, input.Read} {
		if _, err := read(large); !errors.Is(err, input.ErrTooLarge) {
			t.Errorf("got %v, want %v", err, input.ErrTooLarge)
		}
	}
}
