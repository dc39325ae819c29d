package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// A file that is being written has no name: a process that is killed leaves nothing. A bug was a fixed name beside the
// file, which was written through a link that somebody had put there.
func TestFileBeforeCommit(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.Create(filepath.Join(dir, "f"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got files %v, %v, want none", entries, err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("after Commit: got files %v, %v, want one", entries, err)
	}
}

// On a file system without O_TMPFILE, such as FAT, nobody can foresee the name of a file before Commit, and prepare a
// link of that name.
func TestFileBeforeCommitWithAName(t *testing.T) {
	disk := fixtures.NewFaultyDisk(t)
	var names []string
	for _, content := range oldAndNew {
		f, err := atomicfile.Create(disk.Path("f"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(disk.Path(".f.*"))
		if err != nil || len(left) != 1 || slices.Contains(names, left[0]) || len(left[0]) < len(disk.Path(".f."))+26 {
			t.Errorf("got the files %q, %v, want one of a name of its own", left, err)
		}
		names = append(names, left...)
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(disk.Path("f")); err != nil || string(got) != content {
			t.Errorf("got %.8q, %v, want %.8q", got, err, content)
		}
	}
	disk.Set(fixtures.Fault{})
	for range 2 {
		f, err := atomicfile.Unnamed(disk.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	for _, operation := range disk.Set(fixtures.Fault{}) {
		if name, ok := strings.CutPrefix(operation, "create "); ok {
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != 4 {
		t.Errorf("got the temporary names %q, want four", names)
	}
	if entries, err := os.ReadDir(disk.Dir); err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want one", entries, err)
	}
}

// No link of a tree of somebody else leads out of it: what it leads to stays as it is.
func TestLinksOfATree(t *testing.T) {
	const content = "what stood there"
	outside := t.TempDir()
	other := filepath.Join(outside, "f")
	for name, make := range map[string]func(dir string) error{
		"the file is a link":    func(dir string) error { return os.Symlink(other, filepath.Join(dir, "sub", "f")) },
		"the file is hard link": func(dir string) error { return os.Link(other, filepath.Join(dir, "sub", "f")) },
		"the folder is a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "sub")), os.Symlink(outside, filepath.Join(dir, "sub")))
		},
		"the folder is a relative link": func(dir string) error {
			up, err := filepath.Rel(dir, outside)
			return errors.Join(err, os.Remove(filepath.Join(dir, "sub")), os.Symlink(up, filepath.Join(dir, "sub")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.WriteFile(other, []byte(content), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o755),
				make(dir)); err != nil {
				t.Fatal(err)
			}
			tree, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			_, err = atomicfile.WriteIn(tree, "sub/f", []byte("new"), 0o644)
			if refused := strings.HasPrefix(name, "the folder"); (err != nil) != refused {
				t.Errorf("got %v, want an error: %v", err, refused)
			}
			got, readErr := os.ReadFile(other)
			fi, statErr := os.Stat(other)
			if string(got) != content || errors.Join(readErr, statErr) != nil || fi.Mode() != 0o600 {
				t.Errorf("got %q, mode %v outside, %v; want %q and 0600", got, fi.Mode(), errors.Join(readErr, statErr), content)
			}
			if err != nil {
				return
			}
			if got, err := os.ReadFile(filepath.Join(dir, "sub", "f")); err != nil || string(got) != "new" {
				t.Errorf("got %q, %v in the tree, want the new content", got, err)
			}
		})
	}
}

// Of what killed processes have left, nothing stays, and files of others do.
func TestTemporaryFilesOfKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	left := "sub[1]/.f."
	if err := os.Mkdir(filepath.Join(dir, "sub[1]"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".f." + strings.Repeat("A", 26), ".f.swp", ".g." + strings.Repeat("A", 26), left} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, content := range []string{"old", "new"} {
		if changed, err := atomicfile.WriteIn(tree, "sub[1]/f", []byte(content), 0o644); err != nil || !changed {
			t.Fatalf("got %v, %v, want a changed file", changed, err)
		}
	}
	got, err := fs.Glob(tree.FS(), "*")
	below, belowErr := fs.Glob(tree.FS(), "sub*/*")
	want := []string{".f.swp", ".g." + strings.Repeat("A", 26), "sub[1]", left, "sub[1]/f"}
	if all := append(got, below...); !slices.Equal(all, want) || errors.Join(err, belowErr) != nil {
		t.Errorf("got %q, %v, want %q", all, errors.Join(err, belowErr), want)
	}
}

// A folder can be a mount of its own. A bug was to write beside it, from where nothing can be renamed.
func TestFolderOnAMountOfItsOwn(t *testing.T) {
	fixtures.NeedRoot(t)
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "--bind", sub, sub)
	t.Cleanup(func() { fixtures.Unmount(t, sub) })
	tree, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, content := range []string{"old", "new"} {
		if changed, err := atomicfile.WriteIn(tree, "sub/f", []byte(content), 0o644); err != nil || !changed {
			t.Fatalf("got %v, %v, want a changed file", changed, err)
		}
		if got, err := os.ReadFile(filepath.Join(sub, "f")); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want the folder alone", entries, err)
	}
}

// A file that is a mount of its own stays as it is, and the error says why.
func TestFileOnAMountOfItsOwn(t *testing.T) {
	fixtures.NeedRoot(t)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "--bind", file, file)
	t.Cleanup(func() { fixtures.Unmount(t, file) })
	_, err := atomicfile.Write(file, []byte("new"), 0o644)
	if !errors.Is(err, atomicfile.ErrMounted) || !strings.HasPrefix(err.Error(), file+" is a mount of its own") {
		t.Errorf("got %v, want %v", err, atomicfile.ErrMounted)
	}
	content, err := os.ReadFile(file)
	entries, dirErr := os.ReadDir(filepath.Dir(file))
	if errors.Join(err, dirErr) != nil || string(content) != "old" || len(entries) != 1 {
		t.Errorf("got %q and the files %v, %v, want the file as it was", content, entries, errors.Join(err, dirErr))
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
		_, large := atomicfile.CreateLarge(path, 0o644)
		after, err := os.Lstat(path)
		if !errors.Is(plain, atomicfile.ErrNotFile) || !errors.Is(large, atomicfile.ErrNotFile) || err != nil ||
			!os.SameFile(before, after) {
			t.Errorf("%s: Create: got %v, CreateLarge: got %v, want %v of both, and the same file, %v", path, plain, large,
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

// A file of a folder that appears as a whole replaces nothing, and is written through no link.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	if err := errors.Join(atomicfile.WriteNew(name, []byte("a"), 0o751), os.Symlink("elsewhere", link)); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(name)
	if content, readErr := os.ReadFile(name); err != nil || readErr != nil || string(content) != "a" || fi.Mode() != 0o751 {
		t.Errorf("got %q, %v, %v, %v", content, fi.Mode(), err, readErr)
	}
	for _, path := range []string{name, link} {
		if err := atomicfile.WriteNew(path, []byte("b"), 0o644); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got %v, want %v", path, err, fs.ErrExist)
		}
	}
}
