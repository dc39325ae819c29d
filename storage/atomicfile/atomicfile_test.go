package atomicfile_test

import (
	"os"
	"path/filepath"
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
