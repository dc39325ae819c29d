package stores

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The sets of a release replace those of another; files of users stay.
func TestWriteSets(t *testing.T) {
	r := releases{sets: filepath.Join(t.TempDir(), "sets.d")}
	if err := r.write(map[string]string{"a": "1", "b": "1", "c": "1"}, []string{"missing"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.sets, "user"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.write(map[string]string{"a": "2", "d": "2"}, []string{"a", "missing", "b", "c"}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(r.sets, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.Base(file)+string(text))
	}
	if want := []string{"a2", "d2", "user"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.MkdirAll(filepath.Join(r.sets, "folder", "file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.write(nil, []string{"folder"}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the folder cannot be removed", err)
	}
}

// The sets of the current release are saved as they are; a file that cannot be read is an error.
func TestSaveSets(t *testing.T) {
	r := releases{sets: t.TempDir()}
	if err := os.WriteFile(filepath.Join(r.sets, "a"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := State{Releases: []Release{{Sets: map[string]string{"a": "1", "removed": "1"}}}}
	if err := r.saveSets(&s, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Releases[0].Sets; len(got) != 1 || got["a"] != "changed" {
		t.Errorf("got %v, want the changed set alone", got)
	}
	if err := os.Mkdir(filepath.Join(r.sets, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.saveSets(&s, map[string]string{"folder": ""}); err == nil {
		t.Error("got no error, want that a folder is not a set")
	}
}
