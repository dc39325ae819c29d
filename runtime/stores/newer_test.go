package stores_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A state that a newer pinbox-node has written is not changed by this one, whichever of its files is left. A bug was to
// begin with an empty state, if only the copy was left and all stores were used in place.
func TestStateOfANewerProgram(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: delta(1).folder(t), InPlace: true})
	file := filepath.Join(d.Dir, "state.json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(good), `"version": 1`, `"version": 2`, 1)
	next := delta(2).folder(t)
	for name, files := range map[string][2]string{ // contents of the file and its copy; "" removes it
		"both":                      {newer, newer},
		"the file":                  {newer, string(good)},
		"the copy of no file":       {"", newer},
		"the copy of a damaged one": {"{", newer},
	} {
		t.Run(name, func(t *testing.T) {
			for i, path := range []string{file, file + ".copy"} {
				if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if files[i] != "" {
					write(t, path, files[i])
				}
			}
			before := stateFiles(t, d.Dir)
			_, attach := d.Attach(t.Context(), stores.AttachOptions{Source: next})
			_, detach := d.Detach(t.Context(), "1", d.main)
			_, rollback := d.Rollback(t.Context(), "")
			_, compact := d.Compact(t.Context(), stores.CompactOptions{GraphRoots: []string{d.main}})
			for command, err := range map[string]error{
				"attach": attach, "detach": detach, "rollback": rollback, "compact": compact, "a pass": d.reconcile(),
			} {
				if !errors.Is(err, stores.ErrState) || !errors.Is(err, pinset.ErrNewer) {
					t.Errorf("%s: got %v, want %v with %v", command, err, stores.ErrState, pinset.ErrNewer)
				}
			}
			if diff := cmp.Diff(before, stateFiles(t, d.Dir)); diff != "" {
				t.Errorf("got other files (-before +after):\n%s", diff)
			}
			if _, err := os.Stat(filepath.Join(d.Slots[1], "overlay")); err != nil {
				t.Errorf("got %v, want that the store stays mounted", err)
			}
		})
	}
}

// stateFiles are the contents of the files of a state.
func stateFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
	}
	return files
}
