package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

func TestWriteReportsChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for i, step := range []struct {
		content string
		perm    os.FileMode
		changed bool
	}{{"a", 0o644, true}, {"a", 0o644, false}, {"b", 0o644, true}, {"b", 0o600, true}, {"b", 0o600, false}} {
		changed, err := atomicfile.Write(path, []byte(step.content), step.perm)
		if err != nil || changed != step.changed {
			t.Errorf("step %d: got changed %v, %v, want %v", i, changed, err, step.changed)
		}
		got, _ := os.ReadFile(path)
		fi, _ := os.Stat(path)
		if string(got) != step.content || fi.Mode().Perm() != step.perm {
			t.Errorf("step %d: got %q, %v, want %q, %v", i, got, fi.Mode(), step.content, step.perm)
		}
	}
}

// Abort leaves the old file and no other.
func TestAbort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if _, err := atomicfile.Write(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	entries, _ := os.ReadDir(dir)
	got, _ := os.ReadFile(path)
	if len(entries) != 1 || string(got) != "old" {
		t.Errorf("got files %v and content %q, want one file and old", entries, got)
	}
}

// A bug was a temporary name that is longer than the file's, and too long for the file system.
func TestLongestName(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{240, 255} {
		path := filepath.Join(dir, strings.Repeat("n", size))
		if _, err := atomicfile.Write(path, []byte("content"), 0o644); err != nil {
			t.Errorf("a name of %d bytes: got %v, want no error", size, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("got files %v, %v, want two", entries, err)
	}
}

// WriteVia overwrites the temporary file that a killed run has left.
func TestWriteViaOverwritesTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	temp, path := filepath.Join(dir, "temp"), filepath.Join(dir, "sub", "f")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(temp, []byte("left by a run that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := atomicfile.WriteVia(temp, path, []byte("new"), 0o644); err != nil || !changed {
		t.Errorf("got changed %v, %v, want true", changed, err)
	}
	if changed, err := atomicfile.WriteVia(temp, path, []byte("new"), 0o644); err != nil || changed {
		t.Errorf("a second time: got changed %v, %v, want false", changed, err)
	}
	got, _ := os.ReadFile(path)
	fi, _ := os.Stat(path)
	entries, _ := os.ReadDir(dir)
	if string(got) != "new" || fi.Mode().Perm() != 0o644 || len(entries) != 1 {
		t.Errorf("got %q, %v, files %v, want new, 0644, one entry", got, fi.Mode(), entries)
	}
}

// Devices and folders are not replaced. A bug was that root replaced /dev/null by a file.
func TestNotFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir} {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		_, plain := atomicfile.Create(path, 0o644)
		_, via := atomicfile.CreateVia(filepath.Join(dir, "temp"), path, 0o644)
		after, err := os.Lstat(path)
		if !errors.Is(plain, atomicfile.ErrNotFile) || !errors.Is(via, atomicfile.ErrNotFile) || err != nil ||
			!os.SameFile(before, after) {
			t.Errorf("%s: Create: got %v, CreateVia: got %v, want %v of both, and the same file, %v", path, plain, via,
				atomicfile.ErrNotFile, err)
		}
	}
}

// CreateLarge has one writer at a time, and overwrites the partial file of a killed run.
func TestCreateLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.iso")
	partial := filepath.Join(filepath.Dir(path), ".image.iso.pinbox-partial")
	if err := os.WriteFile(partial, []byte("much more than the next run writes"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.CreateLarge(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.CreateLarge(path, 0o644); !errors.Is(err, atomicfile.ErrBusy) {
		t.Errorf("a second writer: got %v, want %v", err, atomicfile.ErrBusy)
	}
	if _, err := f.WriteString("complete"); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "complete" {
		t.Errorf("got %q, %v, want complete", content, err)
	}
	if _, err := os.Stat(partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the partial file after Commit: got %v, want %v", err, os.ErrNotExist)
	}
	second, err := atomicfile.CreateLarge(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	second.Abort()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want one", entries, err)
	}
}

// In a folder such as /tmp, another user can make the partial file first. A bug was to write into it: its owner
// could change what was written, and a link led to a file of this user.
func TestPartialFileOfAnotherUser(t *testing.T) {
	fixtures.NeedRoot(t)
	const other = 12345
	const content = "what stood there"
	for name, make := range map[string]func(partial, own string) error{
		"a file": func(partial, _ string) error {
			return errors.Join(os.WriteFile(partial, []byte(content), 0o600), os.Chmod(partial, 0o666),
				os.Chown(partial, other, other))
		},
		"a pipe":        func(partial, _ string) error { return syscall.Mkfifo(partial, 0o600) },
		"a link":        func(partial, own string) error { return os.Link(own, partial) },
		"a symlink":     func(partial, own string) error { return os.Symlink(own, partial) },
		"a broken link": func(partial, own string) error { return os.Symlink(own+"2", partial) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			own, partial := filepath.Join(dir, "own"), filepath.Join(dir, ".image.iso.pinbox-partial")
			if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.WriteFile(own, []byte(content), 0o600),
				make(partial, own)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(partial)
			if err != nil {
				t.Fatal(err)
			}
			f, err := atomicfile.CreateLarge(filepath.Join(dir, "image.iso"), 0o644)
			if !errors.Is(err, atomicfile.ErrForeign) || !strings.Contains(err.Error(), partial) {
				t.Errorf("got %v, want %v of %s", err, atomicfile.ErrForeign, partial)
			}
			if f != nil {
				f.Abort()
			}
			after, err := os.Lstat(partial)
			if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() {
				t.Errorf("got %v, %v, want the partial file as it was, %v", after, err, before)
			}
			if got, err := os.ReadFile(own); err != nil || string(got) != content {
				t.Errorf("got %q, %v in a file of the user's own, want %q", got, err, content)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
				t.Errorf("got files %v, %v, want two", entries, err)
			}
		})
	}
}

// An unnamed file is never in a folder. A bug was to remove its name after the file was made, so
// that a process that was killed in between left the file.
func TestUnnamed(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.Unnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("content"), 3); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "\x00\x00\x00content" {
		t.Errorf("got %q, %v, want content after three zeros", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got files %v, %v, want none", entries, err)
	}
	if _, err := atomicfile.Unnamed(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: got %v, want %v", err, os.ErrNotExist)
	}
}
