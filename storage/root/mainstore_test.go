package root_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	cstorage "go.podman.io/storage"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/root"
)

// copier is the argument with which this program copies a store: one process has one view of a store.
const copier = "copy-store"

// copierMain writes all layers and images of a store into a main store.
func copierMain() {
	from := os.DirFS(os.Args[2])
	to, err := root.OpenMain(os.Args[3])
	if err == nil {
		documents := layout.Open(from)
		err = errors.Join(
			documents.Layers(func(l layout.Layer) error { return to.PutLayer(context.Background(), l, from) }),
			documents.Images(func(i layout.Image) error { return to.PutImage(i, from) }), to.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// copyCommand runs the copier in a mount namespace of its own, as a unit of systemd does. What it leaves when it is
// killed goes with the test.
func copyCommand(t *testing.T, from, graphRoot string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], copier, from, graphRoot)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// The library finds no fault in what another process writes to a store that it has open, although it has the same
// store as an additional one. A second copy writes nothing.
func TestMainStore(t *testing.T) {
	dir, _ := written(t)
	graphRoot, additional := filepath.Join(t.TempDir(), "main"), filepath.Join(t.TempDir(), "additional")
	fixtures.Run(t, "cp", "-a", dir, additional)
	library := oracle.Open(t, graphRoot, additional)
	if got := oracle.Names(t, library); !slices.Equal(got, []string{name}) {
		t.Errorf("got the images %v, want %s of the additional store", got, name)
	}
	id := imageOf(t, dir).ID
	if _, err := library.MountImage(id, nil, ""); !errors.Is(err, cstorage.ErrLayerUnknown) {
		t.Errorf("got %v from mounting an image of an additional store, want %v", err, cstorage.ErrLayerUnknown)
	}
	var before fs.FileInfo
	for range 2 {
		if out, err := copyCommand(t, dir, graphRoot).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		after, err := os.Stat(filepath.Join(graphRoot, layout.LayersFile))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !os.SameFile(before, after) {
			t.Error("got the layers written twice, want once")
		}
		before = after
	}
	if got := oracle.Names(t, library); !slices.Equal(got, []string{name, name}) {
		t.Errorf("got the images %v, want %s in both stores", got, name)
	}
	if got := oracle.Check(t, library); len(got) > 0 {
		t.Errorf("got %v from the library, want no problem", got)
	}
	where, err := library.MountImage(id, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(where, "below")); err != nil {
		t.Errorf("got %v of a file of the lower layer, want it", err)
	}
	if _, err := library.UnmountImage(id, true); err != nil {
		t.Error(err)
	}
}

// imageOf returns the only image of a store.
func imageOf(t *testing.T, graphRoot string) (img layout.Image) {
	t.Helper()
	if err := layout.Open(os.DirFS(graphRoot)).Images(func(i layout.Image) error { img = i; return nil }); err != nil {
		t.Fatal(err)
	}
	return img
}

// A layer with another content than its DiffID says does not stay in the store. A process that is killed leaves
// what the next one completes.
func TestMainStoreTakesNoDamagedLayer(t *testing.T) {
	dir, top := written(t)
	graphRoot := filepath.Join(t.TempDir(), "main")
	file := filepath.Join(dir, layout.OverlayDir, top, "diff", "above")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[len(bad)-1]++
	if err := os.WriteFile(file, bad, 0o640); err != nil {
		t.Fatal(err)
	}
	if out, err := copyCommand(t, dir, graphRoot).CombinedOutput(); !strings.Contains(string(out), "its record says") {
		t.Errorf("damaged: got %v\n%s\nwant that its content is another", err, out)
	}
	records, err := os.ReadFile(filepath.Join(graphRoot, layout.LayersFile))
	if err != nil || strings.Contains(string(records), top) {
		t.Errorf("got the records %s, %v, want the damaged layer not among them", records, err)
	}
	if err := os.WriteFile(file, good, 0o640); err != nil {
		t.Fatal(err)
	}
	killer := fixtures.NewKiller(t)
	for range 10 {
		killer.Kill("copy", copyCommand(t, dir, graphRoot))
	}
	if out, err := copyCommand(t, dir, graphRoot).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	library := oracle.Open(t, graphRoot)
	if got := oracle.Names(t, library); !slices.Equal(got, []string{name}) {
		t.Errorf("got the images %v, want %s", got, name)
	}
	// A process that is killed while the library tries what overlay mounts can do leaves an empty folder.
	got := slices.DeleteFunc(oracle.Check(t, library), func(problem string) bool {
		return strings.Contains(problem, "not accounted for") &&
			(strings.Contains(problem, "-check") || strings.HasPrefix(problem, "compat"))
	})
	if len(got) > 0 {
		t.Errorf("got %v from the library, want no problem", got)
	}
}

// The sandbox of pinbox-volumes.service lets the library write layers.
func TestMainStoreInTheSandbox(t *testing.T) {
	dir, _ := written(t)
	files := fixtures.Units(t, "installed", "pinbox-volumes.service", "pinbox-volumes.service.d/60-pinbox-volumes.conf")
	files["etc/systemd/system/pinbox-volumes.service.d/10-test.conf"] = "[Service]\nExecStart=\n" +
		"ExecStart=/usr/local/bin/pinbox-node " + copier + " /from /var/lib/containers/storage\n"
	out, code := fixtures.Script(t, "set -ex\nmkdir -p /var/lib/containers/storage\nsystemctl start pinbox-volumes\n"+
		"grep "+name+" /var/lib/containers/storage/overlay-images/images.json\n", files, map[string]string{"/usr/local/bin/pinbox-node": os.Args[0], "/from": dir})
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
