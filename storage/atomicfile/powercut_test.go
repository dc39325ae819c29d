package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

const diskSize = 8 << 20 // bytes

// oldAndNew are two contents of a file of several blocks.
var oldAndNew = [2]string{strings.Repeat("old ", 5000), strings.Repeat("new ", 6000)}

// A file is on the disk when Commit returns, whether or not it replaces another one.
func TestPowerCutAfterCommit(t *testing.T) {
	creators := map[string]func(path string) (*atomicfile.File, error){
		"Create":      func(path string) (*atomicfile.File, error) { return atomicfile.Create(path, 0o644) },
		"CreateLarge": func(path string) (*atomicfile.File, error) { return atomicfile.CreateLarge(path, 0o644) },
	}
	for name, create := range creators {
		t.Run(name, func(t *testing.T) {
			disk := fixtures.NewDisk(t, diskSize)
			path := filepath.Join(disk.Dir, "file")
			for _, content := range oldAndNew {
				f, err := create(path)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.Write([]byte(content)); err != nil {
					t.Fatal(err)
				}
				if err := f.Commit(); err != nil {
					t.Fatal(err)
				}
				checkContent(t, filepath.Join(disk.Cut(t), "file"), content)
			}
		})
	}
}

// A power cut after Rename leaves the whole file, or none.
func TestPowerCutAfterRename(t *testing.T) {
	disk := fixtures.NewDisk(t, diskSize)
	path := filepath.Join(disk.Dir, "file")
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(oldAndNew[1])); err != nil {
		t.Fatal(err)
	}
	if err := f.Rename(); err != nil {
		t.Fatal(err)
	}
	checkContent(t, path, oldAndNew[1])
	kept := filepath.Join(disk.Cut(t), filepath.Base(path))
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		return // the name is lost, and the file with it
	}
	checkContent(t, kept, oldAndNew[1])
}

// The content is on the disk before the name refers to it: else a power cut between the two leaves an empty file. In
// this test, the name reaches the disk with another file.
func TestPowerCutBeforeTheContent(t *testing.T) {
	disk := fixtures.NewDisk(t, diskSize)
	for n, content := range oldAndNew {
		f, err := atomicfile.Create(filepath.Join(disk.Dir, "file"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := f.Rename(); err != nil {
			t.Fatal(err)
		}
		if _, err := atomicfile.Write(filepath.Join(disk.Dir, "other"), []byte{byte(n)}, 0o644); err != nil {
			t.Fatal(err)
		}
		checkContent(t, filepath.Join(disk.Cut(t), "file"), content)
	}
}

// Until Commit, a power cut leaves the old file.
func TestPowerCutBeforeCommit(t *testing.T) {
	disk := fixtures.NewDisk(t, diskSize)
	path := filepath.Join(disk.Dir, "file")
	if _, err := atomicfile.Write(path, []byte(oldAndNew[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	if _, err := f.Write([]byte(oldAndNew[1])); err != nil {
		t.Fatal(err)
	}
	if err := unix.Syncfs(int(f.Fd())); err != nil { // as the kernel does from time to time
		t.Fatal(err)
	}
	checkContent(t, filepath.Join(disk.Cut(t), "file"), oldAndNew[0])
}

// checkContent checks the content of a file after a power cut.
func checkContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("after a power cut: got %d bytes, %.8q, %v; want %d, %.8q", len(got), got, err, len(want), want)
	}
}
