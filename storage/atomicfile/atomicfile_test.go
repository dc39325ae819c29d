package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

func TestWriteSaysWhetherItChangedAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for i, step := range []struct {
		content string
		perm    os.FileMode
		changed bool
	}{{"a", 0o644, true}, {"a", 0o644, false}, {"b", 0o644, true}, {"b", 0o600, true}, {"b", 0o600, false}} {
		changed, err := atomicfile.Write(path, []byte(step.content), step.perm)
		if err != nil || changed != step.changed {
			t.Errorf("step %d: changed %v, %v", i, changed, err)
		}
		got, _ := os.ReadFile(path)
		fi, _ := os.Stat(path)
		if string(got) != step.content || fi.Mode().Perm() != step.perm {
			t.Errorf("step %d: %q, %v", i, got, fi.Mode())
		}
	}
}

func TestAbortLeavesTheOldFileAndNothingElse(t *testing.T) {
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
		t.Errorf("%v, %q", entries, got)
	}
}

// The temporary name of a file was longer than its own, too long for the file system.
func TestLongestName(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{240, 255} {
		path := filepath.Join(dir, strings.Repeat("n", size))
		if _, err := atomicfile.Write(path, []byte("content"), 0o644); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A killed run leaves at most one file beside, and the next run takes it over.
func TestWriteViaTakesOverWhatWasLeft(t *testing.T) {
	dir := t.TempDir()
	temp, path := filepath.Join(dir, "temp"), filepath.Join(dir, "sub", "f")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(temp, []byte("left by a run that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := atomicfile.WriteVia(temp, path, []byte("new"), 0o644); err != nil || !changed {
		t.Errorf("changed %v, %v", changed, err)
	}
	if changed, err := atomicfile.WriteVia(temp, path, []byte("new"), 0o644); err != nil || changed {
		t.Errorf("again: changed %v, %v", changed, err)
	}
	got, _ := os.ReadFile(path)
	fi, _ := os.Stat(path)
	entries, _ := os.ReadDir(dir)
	if string(got) != "new" || fi.Mode().Perm() != 0o644 || len(entries) != 1 {
		t.Errorf("%q, %v, %v", got, fi.Mode(), entries)
	}
}

// Root could once turn /dev/null into a file.
func TestDevicesAndFoldersAreNotReplaced(t *testing.T) {
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
			t.Errorf("%s: %v, %v, %v", path, plain, via, err)
		}
	}
}

// Two runs at once do not mix, and remains of a killed one are written over.
func TestCreateLargeHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.iso")
	remains := filepath.Join(filepath.Dir(path), ".image.iso.pinbox-partial")
	if err := os.WriteFile(remains, []byte("much more than the next run writes"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.CreateLarge(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.CreateLarge(path, 0o644); !errors.Is(err, atomicfile.ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
	if _, err := f.WriteString("whole"); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "whole" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := os.Stat(remains); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
	again, err := atomicfile.CreateLarge(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	again.Abort()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A process that was killed between making a file and taking its name away left the file.
func TestUnnamedLeavesNothing(t *testing.T) {
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
		t.Errorf("got %q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v in the folder, want nothing", entries, err)
	}
	if _, err := atomicfile.Unnamed(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no such folder", err)
	}
}
