package node

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// nodeWithDelta is a node with an appliance's store of two images, and a delta that has a layer more; their
// blocks are not compressed.
func nodeWithDelta(t *testing.T) (m stores.Manager, base, delta []string) {
	t.Helper()
	folder, pins := once(t, "verify", func(r *sample.Registry, folder string) []string {
		pins := []string{pushImage(t, r, "app/verify-a", 300_000, 200_000), pushImage(t, r, "app/verify-b", 250_000),
			pushImage(t, r, "app/verify-a", 300_000, 400_000)}
		o, d := appliance.Options(t, sample.SetNamed("s", pins[:2]...)), appliance.Options(t, sample.SetNamed("s", pins[2]))
		o.Appliance.Spec.Store.Compression, d.Appliance.Spec.Store.Compression = squashfs.None, squashfs.None
		o.Out, d.Out = filepath.Join(folder, "base"), filepath.Join(folder, "delta")
		d.From = []string{o.Out}
		appliance.Build(t, o)
		buildDelta(t, d)
		return pins
	})
	folders := []string{filepath.Join(folder, "base"), filepath.Join(folder, "delta")}
	return newManagerWithDeltas(t, folders), pins[:2], pins[2:]
}

func verify(t *testing.T, m stores.Manager, o stores.VerifyOptions) stores.Verified {
	t.Helper()
	v, err := m.Verify(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// flip changes a byte of a file of a mounted store in the file of the store.
func flip(t *testing.T, store, mounted string) {
	t.Helper()
	content, err := os.ReadFile(mounted)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(all, content[:min(len(content), 4096)])
	f, err := os.OpenFile(store, os.O_RDWR, 0)
	if err != nil || at < 0 {
		t.Fatal(at, err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{all[at+100] ^ 1}, int64(at+100)); err != nil {
		t.Fatal(err)
	}
}

// fileIn finds a file of a layer in a slot, and the ID of the layer.
func fileIn(t *testing.T, slot, name string) (path, layer string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(slot, "overlay/*/diff", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v, want one %s", found, err, name)
	}
	layer, _, _ = strings.Cut(strings.TrimPrefix(found[0], filepath.Join(slot, "overlay")+"/"), "/")
	return found[0], layer
}

// A changed byte of a store that is mounted without dm-verity: CRI-O starts containers with it. Verify names
// the layer and all images with it, also those of a delta, and reads the other layers.
func TestVerifyFindsAChangedByte(t *testing.T) {
	m, base, delta := nodeWithDelta(t)
	good := verify(t, m, stores.VerifyOptions{})
	if good.Stores != 2 || good.Layers != 4 || good.ReadLayers != 4 || good.ReadBytes != good.Bytes ||
		good.Bytes < 1_150_000 || len(good.Damaged) > 0 {
		t.Errorf("got %+v, want 4 layers of 2 stores, which are good", good)
	}
	path, layer := fileIn(t, m.Slots[0], "data/0-300000")
	flip(t, backing(t, m.Slots[0]), path)
	var done, all int64
	v := verify(t, m, stores.VerifyOptions{Progress: func(d, a int64) {
		if d <= done || a != good.Bytes {
			t.Errorf("got the progress %d of %d after %d of %d", d, a, done, good.Bytes)
		}
		done, all = d, a
	}})
	if done != all || v.ReadLayers != 4 {
		t.Errorf("got %d of %d bytes, %d layers; want all and 4", done, all, v.ReadLayers)
	}
	images := []string{base[0], delta[0]}
	slices.Sort(images)
	if len(v.Damaged) != 1 || v.Damaged[0].Store.Slot != "0" || v.Damaged[0].Layer != layer ||
		!slices.Equal(v.Damaged[0].Images, images) || !errors.Is(v.Damaged[0].Err, audit.ErrInvalid) {
		t.Errorf("got %+v, want the layer %s of the images %v in slot 0", v.Damaged, layer, images)
	}
}

// backing is the file of the loop device that is mounted at a slot.
func backing(t *testing.T, slot string) string {
	t.Helper()
	device := strings.TrimSpace(fixtures.Run(t, "findmnt", "--noheadings", "--output", "SOURCE", slot))
	file, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(file))
}

// Where dm-verity verifies what is read, a changed byte is an I/O error.
func TestVerifyFindsAnUnreadableLayer(t *testing.T) {
	m, _, delta := nodeWithDelta(t)
	_, layer := fileIn(t, m.Slots[1], "data/1-400000")
	m.OpenFS = func(e mount.Extent) (stores.FS, error) {
		files, err := stores.OpenFS(e)
		return failing{files, "data/1-400000"}, err
	}
	v := verify(t, m, stores.VerifyOptions{})
	if len(v.Damaged) != 1 || v.Damaged[0].Store.Slot != "1" || v.Damaged[0].Store.ID == "" ||
		v.Damaged[0].Layer != layer || !slices.Equal(v.Damaged[0].Images, delta) ||
		!errors.Is(v.Damaged[0].Err, syscall.EIO) || v.ReadLayers != 4 {
		t.Errorf("got %+v, want the layer %s in slot 1 with %v", v, layer, syscall.EIO)
	}
}

// failing is a store in which a file cannot be read.
type failing struct {
	stores.FS
	name string
}

func (f failing) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if strings.HasSuffix(name, f.name) {
		return unreadable{file}, err
	}
	return file, err
}

type unreadable struct{ fs.File }

func (unreadable) Read([]byte) (int, error) { return 0, syscall.EIO }

// A store whose records have changed does not keep Verify from reading the others.
func TestVerifyFindsUnreadableRecords(t *testing.T) {
	m, _, _ := nodeWithDelta(t)
	flip(t, backing(t, m.Slots[1]), filepath.Join(m.Slots[1], layout.LayersFile))
	v := verify(t, m, stores.VerifyOptions{})
	if len(v.Damaged) != 1 || v.Damaged[0].Store.Slot != "1" || v.Damaged[0].Layer != "" || v.Damaged[0].Err == nil ||
		v.ReadLayers != 3 {
		t.Errorf("got %+v, want damaged records in slot 1, and 3 layers of slot 0", v)
	}
}

// A sample has layers of at least so many bytes, but not all; the seed decides which, and each layer is in
// the sample of some seed.
func TestVerifyReadsASample(t *testing.T) {
	m, _, _ := nodeWithDelta(t)
	first := map[int64]bool{} // the sizes of layers: all differ
	for seed := range uint64(40) {
		v := verify(t, m, stores.VerifyOptions{Percent: 5, Seed: seed})
		if v.Layers != 4 || v.ReadLayers != 1 || v.ReadBytes*100 < v.Bytes*5 {
			t.Fatalf("got %+v, want one layer of 4", v)
		}
		first[v.ReadBytes] = true
		if again := verify(t, m, stores.VerifyOptions{Percent: 5, Seed: seed}); again.ReadBytes != v.ReadBytes {
			t.Errorf("seed %d: got %d bytes and then %d, want the same", seed, v.ReadBytes, again.ReadBytes)
		}
	}
	if len(first) != 4 {
		t.Errorf("got the layers %v of 40 seeds, want 4", first)
	}
	if v := verify(t, m, stores.VerifyOptions{Percent: 60}); v.ReadBytes*100 < v.Bytes*60 || v.ReadLayers == 4 {
		t.Errorf("got %+v, want 60 percent", v)
	}
}

func TestVerifyIsInterrupted(t *testing.T) {
	m, _, _ := nodeWithDelta(t)
	ctx, cancel := context.WithCancel(t.Context())
	v, err := m.Verify(ctx, stores.VerifyOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || v.ReadLayers != 1 || len(v.Damaged) > 0 {
		t.Errorf("got %+v, %v; want one layer and %v", v, err, context.Canceled)
	}
}
