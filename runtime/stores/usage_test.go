package stores

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
)

// writeFile writes a file and the folders above it.
func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An error names eight users of a store, and how many more there are.
func TestManyUsersOfAStore(t *testing.T) {
	users := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("container ", i), fmt.Sprint("container ", i)) // named once
		}
		return all
	}
	for n, want := range map[int]string{
		1: "by container 0", 8: "container 6, container 7", 9: "container 6, container 7, and 1 more",
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if err := inUse("", users(n)); !errors.Is(err, ErrInUse) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got %v, want %q at its end", err, want)
			}
		})
	}
	if err := inUse("", nil); err != nil {
		t.Errorf("without users: got %v, want no error", err)
	}
}

// memoryFS is a store in memory.
type memoryFS struct{ fstest.MapFS }

func (memoryFS) Close() error { return nil }

// A layer is that of a store if it has the same link name there, whether the store is mounted or not.
func TestSameLink(t *testing.T) {
	const name = "overlay/layer/link"
	for title, test := range map[string]struct {
		mounted, file, other string
		want                 bool
	}{
		"the same, mounted":     {"A", "", "A", true},
		"another, mounted":      {"A", "", "B", false},
		"the same, not mounted": {"", "A", "A", true},
		"another, not mounted":  {"", "A", "B", false},
		"in no other store":     {"A", "", "", false},
		"in the other only":     {"", "", "A", false},
	} {
		t.Run(title, func(t *testing.T) {
			dir, root := t.TempDir(), t.TempDir()
			o := Store{ID: digest.FromString("store"), Slot: "1"}
			u := usage{slots: slots{all: []string{filepath.Join(dir, "0")}}, sources: sources{dir: folder(dir)}}
			u.sources.openFS = func(mount.Extent) (FS, error) {
				return memoryFS{fstest.MapFS{name: {Data: []byte(test.file)}}}, nil
			}
			if test.mounted != "" {
				writeFile(t, filepath.Join(dir, "1", name), test.mounted)
			}
			if test.file != "" {
				writeFile(t, u.sources.dir.file(o), "")
			}
			if test.other != "" {
				writeFile(t, filepath.Join(root, name), test.other)
			}
			if got := u.sameLink(o, root, "layer"); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
