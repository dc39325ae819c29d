package stores

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/layout"
)

// VerifyOptions are the options of [Manager.Verify].
type VerifyOptions struct {
	// Percent of the bytes of all layers that are read at least; 0 means all.
	Percent float64
	// Seed of the random order in which layers are chosen.
	Seed uint64
	// Progress is called with the bytes read so far and the bytes to read; nil is fine.
	Progress func(done, all int64)
}

// Verified is what Verify has read.
type Verified struct {
	// Stores that are mounted, and the layers in them. Bytes are those of their tar streams.
	Stores, Layers int
	Bytes          int64
	// ReadLayers and ReadBytes are what was read of them.
	ReadLayers int
	ReadBytes  int64
	Damaged    []DamagedLayer
}

// DamagedLayer is a layer that cannot be read, or whose content is not that of its DiffID.
type DamagedLayer struct {
	Store Store
	// Layer is its ID, or the digest of a blob of an OCI artifact; "" if the records of the store cannot be
	// read, and so none of its layers.
	Layer string
	// Images have the layer. Each is a name, or the beginning of an ID.
	Images []string
	Err    error
}

// Verify reads layers of the mounted stores again, and compares them with their DiffIDs. It reads the
// devices that are mounted, as CRI-O does, and not the kernel's page cache. A layer that is damaged does not
// keep others from being read.
func (m Manager) Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	state, err := ReadState(m.Dir)
	if err != nil {
		return Verified{}, err
	}
	mounted, err := mount.ReadTable()
	if err != nil {
		return Verified{}, err
	}
	v := layerVerifier{tools: m.tools(), parents: map[string]string{}, progress: o.Progress}
	for _, slot := range m.Slots {
		if mounted[slot] == 0 {
			continue
		}
		store := Store{Slot: filepath.Base(slot)}
		if i := slices.IndexFunc(state.Stores, func(s Store) bool { return s.Slot == store.Slot }); i >= 0 {
			store = state.Stores[i]
		}
		v.found.Stores++
		if err := v.open(slot, store); err != nil {
			v.found.Damaged = append(v.found.Damaged, DamagedLayer{Store: store, Err: err})
		}
	}
	defer v.close()
	v.choose(o)
	for _, s := range v.stores {
		if err := v.readLayers(ctx, s); err != nil {
			return v.found, err
		}
	}
	return v.found, nil
}

// layerVerifier reads layers of several stores.
type layerVerifier struct {
	tools
	stores []openStore
	// parents of all layers, and images of all stores.
	parents  map[string]string
	images   []named
	layers   []layerOf
	chosen   map[layerOf]bool
	toRead   int64
	progress func(done, all int64)
	found    Verified
}

// openStore is a mounted store that is read from its device.
type openStore struct {
	Store
	files FS
}

// layerOf is a layer in a slot, of so many bytes; or a blob of an OCI artifact, whose id is its digest.
type layerOf struct {
	slot, id string
	bytes    int64
}

// open opens the device at a slot and reads the records of the store.
func (v *layerVerifier) open(slot string, store Store) error {
	device, err := mount.DeviceAt(slot)
	if err != nil {
		return err
	}
	if err := evictDevice(device.Path); err != nil {
		return err
	}
	files, err := v.sources.openFS(device)
	if err != nil {
		return err
	}
	if err := v.readRecords(store, files); err != nil {
		return errors.Join(err, files.Close())
	}
	v.stores = append(v.stores, openStore{store, files})
	return nil
}

// evictDevice drops a block device from the kernel's page cache, and the file that it is a part of.
func evictDevice(path string) error {
	device, err := filepath.EvalSymlinks(path) // in /dev/mapper are links
	if err != nil {
		return err
	}
	for _, of := range []string{"loop", "slaves/*/loop"} {
		files, _ := filepath.Glob(filepath.Join("/sys/class/block", filepath.Base(device), of, "backing_file"))
		for _, file := range files {
			name, _ := os.ReadFile(file)
			_ = evict(strings.TrimSpace(string(name))) // the file may be of another mount namespace, or removed
		}
	}
	return evict(device)
}

func (v *layerVerifier) readRecords(store Store, files FS) error {
	if _, err := audit.Records(files); err != nil {
		return err
	}
	documents := layout.Open(files)
	err := documents.Layers(func(l layout.Layer) error {
		v.parents[l.ID] = l.Parent
		v.layers = append(v.layers, layerOf{store.Slot, l.ID, l.UncompressedSize})
		v.found.Bytes += l.UncompressedSize
		return nil
	})
	blobs, blobsErr := audit.Blobs(files)
	for d, size := range blobs {
		v.layers = append(v.layers, layerOf{store.Slot, d.String(), size})
		v.found.Bytes += size
	}
	return errors.Join(err, blobsErr, documents.Images(func(i layout.Image) error {
		v.images = append(v.images, named{ID: i.ID, Names: i.Names, Layer: i.TopLayer})
		return nil
	}))
}

func (v *layerVerifier) close() {
	for _, s := range v.stores {
		_ = s.files.Close() // only read
	}
}

// choose chooses layers in random order until they have enough bytes.
func (v *layerVerifier) choose(o VerifyOptions) {
	v.found.Layers, v.chosen = len(v.layers), map[layerOf]bool{}
	rand.New(rand.NewPCG(o.Seed, 0)).Shuffle(len(v.layers), func(i, j int) {
		v.layers[i], v.layers[j] = v.layers[j], v.layers[i]
	})
	for _, l := range v.layers {
		if o.Percent > 0 && float64(v.toRead) >= float64(v.found.Bytes)*o.Percent/100 {
			return
		}
		v.chosen[l] = true
		v.toRead += l.bytes
	}
}

// readLayers reads the chosen layers of a store. The error is that of the context.
func (v *layerVerifier) readLayers(ctx context.Context, s openStore) error {
	err := layout.Open(s.files).Layers(func(l layout.Layer) error {
		if !v.chosen[layerOf{s.Slot, l.ID, l.UncompressedSize}] {
			return nil
		}
		return v.read(ctx, s, l.ID, l.UncompressedSize, audit.Layer(ctx, s.files, l))
	})
	for _, l := range v.layers {
		if d := digest.Digest(l.id); err == nil && d.Validate() == nil && l.slot == s.Slot && v.chosen[l] {
			err = v.read(ctx, s, l.id, l.bytes, audit.Blob(ctx, s.files, d))
		}
	}
	if err != nil && ctx.Err() == nil { // the records could be read before
		v.found.Damaged = append(v.found.Damaged, DamagedLayer{Store: s.Store, Err: err})
		return nil
	}
	return err
}

// read notes that a layer of so many bytes was read, with an error or nil. The error is that of the context.
func (v *layerVerifier) read(ctx context.Context, s openStore, id string, bytes int64, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.found.Damaged = append(v.found.Damaged, DamagedLayer{s.Store, id, v.imagesWith(id), err})
	}
	v.found.ReadLayers++
	v.found.ReadBytes += bytes
	if v.progress != nil {
		v.progress(v.found.ReadBytes, v.toRead)
	}
	return nil
}

// imagesWith returns the images that have a layer.
func (v *layerVerifier) imagesWith(layer string) (names []string) {
	for _, img := range v.images {
		id := img.Layer
		for n := 0; id != layer && id != "" && n <= len(v.parents); n++ { // a chain that ends
			id = v.parents[id]
		}
		if id == layer {
			names = append(names, img.title())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
