package stores

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
)

// The mount point for a trial is removed, unless there is something in it.
func TestEndTrial(t *testing.T) {
	for name, test := range map[string]struct {
		folder string
		want   error
	}{"missing": {"", nil}, "empty": {"trial", nil}, "not empty": {"trial/folder", syscall.ENOTEMPTY}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, test.folder), 0o755); err != nil {
				t.Fatal(err)
			}
			m := mounts{trial: filepath.Join(dir, "trial")}
			if err := m.endTrial(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if _, err := os.Stat(m.trial); test.want == nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want that the folder is removed", err)
			}
		})
	}
}

// What is mounted at a slot may be unmounted again, since it is not the store, cannot be read by CRI-O, or
// has lost its base.
func TestProblemOfAMountedStore(t *testing.T) {
	for name, test := range map[string]struct {
		mounts int
		files  map[string]string
		want   string
	}{
		"nothing":       {0, nil, errNotMounted.Error()},
		"another store": {1, map[string]string{layout.ImagesLock: "other"}, "has another store"},
		"no records":    {1, map[string]string{layout.ImagesFile: "{"}, layout.ImagesFile},
		"no delta":      {1, map[string]string{layout.OwnDelta: "{"}, "not the description of a pinbox delta"},
		"no base": {1, map[string]string{
			layout.OwnDelta: `{"version":1,"bases":[],"needs":[{"layer":"` + strings.Repeat("a", 64) +
				`","link":"` + layout.LinkName(strings.Repeat("a", 64)) + `"}]}`,
		}, ErrNoBase.Error()},
		"intact": {1, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, lock := t.TempDir(), digest.FromString("[]").Encoded()
			files := map[string]string{
				layout.ImagesFile: "[]", layout.ImagesLock: lock, layout.LayersFile: "[]", layout.LayersLock: lock,
			}
			maps.Copy(files, test.files)
			for name, text := range files {
				writeFile(t, filepath.Join(dir, "1", name), text)
			}
			m := mounts{slots: slots{all: []string{filepath.Join(dir, "0")}}}
			o := Store{Slot: "1", Token: digest.FromString(lock + lock).Encoded()}
			err := m.problem(o, mount.Table{filepath.Join(dir, "1"): test.mounts})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
