package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
)

// If CRI-O begins to use a store while it is unmounted, the store is mounted again.
func TestDetachChecksAgainAfterTheUnmount(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		record object
		text   string
	}{
		"a container": {
			"overlay-containers/containers.json",
			object{"id": idOf("container", 1), "names": []string{"k8s_app"}, "image": idOf("image", 1)},
			"the container k8s_app",
		},
		"an image over its layer": {
			"overlay-images/images.json",
			object{"id": idOf("image", 9), "names": []string{"quay.io/pulled:1"}, "layer": idOf("layer", 1)},
			"the image quay.io/pulled:1 of CRI-O's main store",
		},
		"a layer over its layer": {
			"overlay-layers/layers.json",
			object{"id": idOf("layer", 9), "parent": idOf("layer", 1)},
			"the layer " + idOf("layer", 9)[:12],
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			d.attach(stores.AttachOptions{Source: testStore{n: 1}.folder(t), KeepSets: true})
			file := filepath.Join(d.main, c.file)
			d.Mounter = interruptingMounter{act: func() { write(t, file, string(records(t, c.record))) }}
			_, err := d.Detach(t.Context(), "1", d.main)
			if !errors.Is(err, stores.ErrInUse) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v by %s", err, stores.ErrInUse, c.text)
			}
			d.wantMounted(1)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			d.Mounter = mount.Direct{}
			if _, err := d.Detach(t.Context(), "1", d.main); err != nil {
				t.Errorf("after the end of the use: got %v, want no error", err)
			}
			d.wantMounted()
		})
	}
}

// Stores of which each needs the one before are detached in every order, each once nothing refers to it.
func TestDetachInEveryOrder(t *testing.T) {
	for _, order := range []string{"123", "132", "213", "231", "312", "321"} {
		t.Run(order, func(t *testing.T) {
			d, mounted := newNode(t, testStore{n: 0}), []int{1, 8, 6}
			for _, n := range mounted {
				d.attach(stores.AttachOptions{Source: delta(n).folder(t), KeepSets: true})
			}
			for len(mounted) > 0 {
				for _, slot := range strings.Split(order, "") {
					var want error
					switch last := strconv.Itoa(len(mounted)); {
					case slot > last:
						want = stores.ErrNotAttached
					case slot < last:
						want = stores.ErrInUse
					}
					_, err := d.Detach(t.Context(), slot, d.main)
					if !errors.Is(err, want) || errors.Is(want, stores.ErrInUse) && !strings.Contains(err.Error(), "the store small") {
						t.Fatalf("detach %s of %v: got %v, want %v", slot, mounted, err, want)
					}
					if err == nil {
						mounted = mounted[:len(mounted)-1]
					}
					d.wantMounted(mounted...)
				}
			}
		})
	}
}

// With imagestore in storage.conf, containers are not under the root of the images.
func TestDetachWithSplitDisks(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: testStore{n: 1}.folder(t), KeepSets: true})
	containers := t.TempDir()
	for name, record := range map[string]object{
		"overlay-containers/containers.json": {"id": idOf("container", 1), "image": idOf("image", 1)},
		"overlay-layers/layers.json":         {"id": idOf("container", 1), "parent": idOf("layer", 1)},
	} {
		write(t, filepath.Join(containers, name), string(records(t, record)))
	}
	if _, err := d.Detach(t.Context(), "1", d.main, containers); !errors.Is(err, stores.ErrInUse) {
		t.Errorf("a container's store: got %v, want %v", err, stores.ErrInUse)
	}
	if _, err := d.Detach(t.Context(), "1", d.main, filepath.Join(containers, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unknown root of containers: got %v, want %v", err, os.ErrNotExist)
	}
	d.wantMounted(1)
}

// With transient_store in storage.conf, the records of containers are in the run root, which a reboot empties.
func TestDetachWithTransientContainers(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.attach(stores.AttachOptions{Source: testStore{n: 1}.folder(t), KeepSets: true})
	run := t.TempDir()
	d.RunRoots = []string{run, filepath.Join(run, "missing")}
	for name, record := range map[string]object{
		layout.VolatileContainersFile: {"id": idOf("container", 1), "image": idOf("image", 1)},
		layout.VolatileLayersFile:     {"id": idOf("container", 1), "parent": idOf("layer", 1)},
	} {
		file := filepath.Join(run, name)
		write(t, file, string(records(t, record)))
		if _, err := d.Detach(t.Context(), "1", d.main); !errors.Is(err, stores.ErrInUse) {
			t.Errorf("%s: got %v, want %v", name, err, stores.ErrInUse)
		}
		if _, err := d.Compact(t.Context(), stores.CompactOptions{GraphRoots: []string{d.main}}); err != nil && !errors.Is(err, stores.ErrNothingToCompact) {
			t.Errorf("%s: got %v, want no error of the run root", name, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Detach(t.Context(), "1", d.main); err != nil {
		t.Errorf("without containers: got %v, want no error", err)
	}
}

// Why the file of a store cannot be removed is returned, and the next command removes it.
func TestDetachWhoseFileStays(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	s := d.attach(stores.AttachOptions{Source: testStore{n: 1}.folder(t), KeepSets: true})
	file := filepath.Join(d.Dir, s.ID.Encoded()+".squashfs")
	if err := os.Remove(file); err != nil { // the mount has it open
		t.Fatal(err)
	}
	write(t, filepath.Join(file, "note"), "")
	if _, err := d.Detach(t.Context(), "1", d.main); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("got %v, want %v", err, syscall.ENOTEMPTY)
	}
	if err := os.Remove(filepath.Join(file, "note")); err != nil {
		t.Fatal(err)
	}
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	d.wantMounted()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the file is removed", err)
	}
}
