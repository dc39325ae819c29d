package watch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/watch"
	"github.com/pinbox/pinbox/storage/pinset"
)

const pin = "quay.io/x/a@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"

// A file that cannot be read is an error; the sets of the other files are returned with it.
func TestBrokenFileIsAnErrorNotAnEmptySet(t *testing.T) {
	sets, err := watch.ReadSets(fstest.MapFS{
		"worker.yaml": {Data: sample.Set("worker", pin)},
		"broken.yaml": {Data: []byte("kind: PinnedImageSet\n")},
		"notes.txt":   {Data: []byte("not read")},
	})
	if len(sets) != 1 || sets[0].Name != "worker-sample" || err == nil || !strings.Contains(err.Error(), "broken.yaml:1") {
		t.Errorf("got %v, %v, want one set, and an error of broken.yaml", sets, err)
	}
}

// Sets that the API of the cluster would refuse are errors.
func TestInvalidSets(t *testing.T) {
	other := strings.Replace(pin, "x/a", "x/b", 1)
	for name, test := range map[string]struct {
		files map[string][]byte
		sets  int
		want  string // the text of the error
	}{
		"an image twice": {
			map[string][]byte{"a.yaml": sample.Set("worker", pin, other, pin)}, 0,
			`a.yaml:1: set "worker-sample": spec.pinnedImages: Duplicate value: "` + pin + `"`,
		},
		"a set twice": {
			map[string][]byte{"a.yaml": sample.Set("worker", pin), "b.yaml": sample.Set("worker", other)}, 1,
			`b.yaml:1: set name used twice: "worker-sample"`,
		},
		"a set twice in a file": {
			map[string][]byte{"a.yaml": append(append(sample.Set("worker", pin), "---\n"...), sample.Set("worker", other)...)},
			0, "set name used twice",
		},
		"locks, backups, hidden": {
			map[string][]byte{"a.yaml": sample.Set("worker", pin), "x.lock.json": []byte("{}"), "a.yaml~": []byte("{"),
				".a.yaml": []byte("{")}, 1, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for file, content := range test.files {
				fsys[file] = &fstest.MapFile{Data: content}
			}
			sets, err := watch.ReadSets(fsys)
			if len(sets) != test.sets || (err == nil) != (test.want == "") ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %d sets, %v, want %d, %q", len(sets), err, test.sets, test.want)
			}
			var file *pinset.FileError
			if err != nil && (!errors.As(err, &file) || !strings.HasPrefix(file.Revision, "sha256:")) {
				t.Errorf("got %#v, want a FileError with a revision", err)
			}
		})
	}
}

// Every change in a folder is reported. After the value that says that the folder is watched, nothing else is.
func TestChanges(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"a new file":       func(dir string) error { return os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("x"), 0o644) },
		"a renamed file":   func(dir string) error { return os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "a.bak")) },
		"a changed file":   func(dir string) error { return os.Truncate(filepath.Join(dir, "a.yaml"), 0) },
		"a removed file":   func(dir string) error { return os.Remove(filepath.Join(dir, "a.yaml")) },
		"a removed folder": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			changes := watch.Changes(t.Context(), dir, time.Hour)
			fixtures.Receive(t, "first value", changes)
			select {
			case <-changes:
				t.Error("got a value before the change")
			default:
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			fixtures.Receive(t, "value for "+name, changes)
		})
	}
}

// While there is no folder, the receiver looks for it again and again; once there is one, it is watched.
func TestChangesOfAFolderThatIsMadeLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sets.d")
	changes := watch.Changes(t.Context(), dir, time.Millisecond)
	fixtures.Receive(t, "value without a folder", changes)
	fixtures.Receive(t, "value, still without a folder", changes)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		fixtures.Receive(t, "value", changes)
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Only the sets of the node's pools apply, as in TestPinnedImageSetAddEventHandlers of the Machine
// Config Operator.
func TestForPools(t *testing.T) {
	every := []byte(strings.Replace(string(sample.Set("every", pin)), "machineconfiguration.openshift.io/role: every",
		"tier: one", 1))
	sets, err := watch.ReadSets(fstest.MapFS{
		"a.yaml": {Data: sample.Set("worker", pin)}, "b.yaml": {Data: sample.Set("infra", pin)}, "c.yaml": {Data: every},
	})
	if err != nil {
		t.Fatal(err)
	}
	for pools, want := range map[string]string{
		"": "worker-sample infra-sample every-sample", "worker": "worker-sample every-sample", "master": "every-sample",
		"worker infra": "worker-sample infra-sample every-sample",
	} {
		var names []string
		for _, s := range watch.ForPools(sets, strings.Fields(pools)) {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("pools %q: got %s, want %s", pools, got, want)
		}
	}
}

// A file without an end is not read to its end.
func TestSetWithoutAnEnd(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yaml")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, 1<<40)); err != nil {
		t.Fatal(err)
	}
	_, err := watch.ReadSets(os.DirFS(dir))
	if err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("got %v, want that it is too large", err)
	}
}
