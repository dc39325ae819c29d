package compose

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/opencontainers/go-digest"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Rebuild has what the store of a delta is made of where its layers come as tar streams: the result is the
// store that `pinbox delta` makes of their blobs, byte for byte, with the same version of the encoder.
type Rebuild struct {
	// Documents is an image that has all of the store but its layers.
	Documents *squashfs.Reader
	// Lock and Delta are those of the store.
	Lock  pinset.Lock
	Delta pinset.Delta
	// Open opens the tar stream of a layer, once for all layers that have it. At its end, the reader returns an error
	// if the stream does not have the DiffID. It is called again if the layer replaces files of its own. Blocks may get
	// data blocks that the packs then take as they are.
	Open func(ctx context.Context, diffID digest.Digest, blocks *squashfs.BlockCache) (io.ReadCloser, error)
	// TempDir is a folder for temporary files without names. They take the space of the store and of its
	// largest layer, and are freed while the store is written.
	TempDir string
	// Workers is how many blocks are compressed at a time; 0 means one for each core.
	Workers int
}

// Compose packs the layers, and prepares the store. The caller closes Documents, after it closed the result.
func (r Rebuild) Compose(ctx context.Context) (*Composed, error) {
	own, err := r.Documents.Stat(layout.OwnLock)
	if err != nil {
		return nil, err
	}
	packing := r.Documents.Options()
	packing.Workers, packing.Tmp = r.Workers, r.TempDir
	fill := func(store *Store, _ *squashfs.Writer, compressor *squashfs.Compressor) (*squashfs.Inode, error) {
		b := rebuilder{Rebuild: r, ctx: ctx, store: store, compressor: compressor, packs: map[digest.Digest]pack{}}
		for _, add := range []func() error{b.addLayers, b.addImages, b.addArtifacts, b.addFiles} {
			if err := add(); err != nil {
				return nil, err
			}
		}
		return store.Close()
	}
	return composeStore(packing, packing.ModTime, own.ModTime(), r.TempDir, fill)
}

// rebuilder fills the store, in the order in which `pinbox delta` does.
type rebuilder struct {
	Rebuild
	ctx        context.Context
	store      *Store
	compressor *squashfs.Compressor
	packs      map[digest.Digest]pack // by DiffID
}

// pack is the pack of a layer that is in the store.
type pack struct {
	file squashfs.File
	size int64
}

func (b *rebuilder) addLayers() error {
	base := map[string]bool{}
	for _, n := range b.Delta.Needs {
		base[n.Layer] = true
	}
	for _, img := range b.Lock.Images {
		parent := ""
		for _, locked := range img.Layers {
			l := Layer{
				Parent: parent, Digest: locked.Digest, Size: locked.Size, MediaType: locked.MediaType, DiffID: locked.DiffID,
			}
			parent = layout.LayerID(parent, locked.DiffID)
			add := b.addLayer
			if base[parent] {
				add = func(l Layer) error {
					return b.store.AddBaseLayer(l, LayerInfo{
						Size: locked.UnpackedSize, Inodes: locked.Inodes, RootAttributes: locked.RootAttributes,
					})
				}
			}
			if err := add(l); err != nil {
				return fmt.Errorf("image %s: layer %s: %w", img.Pin, parent, err)
			}
		}
	}
	return nil
}

// addLayer packs a layer, unless one with the same stream was packed for another place.
func (b *rebuilder) addLayer(l Layer) error {
	if _, ok := b.store.Lookup(l); ok {
		return nil
	}
	if p, ok := b.packs[l.DiffID]; ok {
		// The store reads what it needs by the other one, and must not free that.
		_, err := b.store.AddLayer(l, struct{ squashfs.File }{p.file}, p.size)
		return err
	}
	p, err := b.spool(func(out io.Writer) error {
		return PackLayer(b.ctx, b.compressor, Blob{
			DiffID: l.DiffID, Verified: true, Open: func(ctx context.Context) (io.ReadCloser, error) {
				return b.Open(ctx, l.DiffID, b.compressor.Cache())
			},
		}, out, b.TempDir)
	})
	if err != nil {
		return err
	}
	if _, err = b.store.AddLayer(l, p.file, p.size); Shelves(p.size) {
		return errors.Join(err, p.file.Close()) // it is packed again for another place
	}
	b.packs[l.DiffID] = p
	return err
}

// spool writes a pack to a file without a name.
func (b *rebuilder) spool(write func(io.Writer) error) (pack, error) {
	f, err := atomicfile.Unnamed(b.TempDir)
	if err != nil {
		return pack{}, err
	}
	err = write(f)
	size, seekErr := f.Seek(0, io.SeekCurrent)
	if err = cmp.Or(err, seekErr); err != nil {
		return pack{}, errors.Join(err, f.Close())
	}
	return pack{&spool{File: f}, size}, nil
}

// addImages adds the images with all documents.
func (b *rebuilder) addImages() error {
	records, err := readImages(b.Documents)
	for _, record := range records {
		if err = b.store.images.merge(record, b.Documents); err != nil {
			return fmt.Errorf("image %s: %w", record.ID, err)
		}
	}
	return err
}

// addArtifacts adds the OCI artifacts that the documents have.
func (b *rebuilder) addArtifacts() error {
	found, err := layout.Open(b.Documents).Artifacts()
	if err != nil || len(found) == 0 {
		return err
	}
	has := map[string]bool{}
	for _, a := range found {
		has[a.Name] = true
	}
	var held []pinset.LockedArtifact
	for _, a := range b.Lock.Artifacts {
		if has[a.Pin] {
			held = append(held, a)
		}
	}
	for _, blob := range pinset.ArtifactBlobs(held) {
		if err := b.addBlob(layout.ArtifactBlob(blob.Digest), 0o644, blob.Digest); err != nil {
			return err
		}
	}
	return errors.Join(b.copyFile(layout.ArtifactsIndex), b.copyFile(layout.ArtifactsVersion))
}

func (b *rebuilder) addBlob(name string, perm uint32, want digest.Digest) error {
	p, err := b.spool(func(out io.Writer) error {
		f, err := b.Documents.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return PackFile(b.compressor, &stoppable{b.ctx, f}, want, out)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return b.store.AddPackedFile(name, perm, want, p.file, p.size)
}

// addFiles adds the files of pinbox.
func (b *rebuilder) addFiles() error {
	if err := b.copyFile(layout.OwnLock); err != nil {
		return err
	}
	for _, s := range b.Lock.Sets {
		if err := b.copyFile(path.Join(layout.OwnSets, pinset.FileName(s.Name))); err != nil {
			return err
		}
	}
	var delta bytes.Buffer
	if err := b.Delta.Encode(&delta); err != nil {
		return err
	}
	if err := b.store.AddFile(layout.OwnDelta, 0o644, &delta); err != nil {
		return err
	}
	if _, err := b.Documents.Stat(layout.OwnProgram); errors.Is(err, fs.ErrNotExist) || b.Lock.Program == nil {
		return nil
	}
	return b.addBlob(layout.OwnProgram, 0o755, b.Lock.Program.Digest)
}

func (b *rebuilder) copyFile(name string) error {
	f, err := b.Documents.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return b.store.AddFile(name, 0o644, f)
}

// spool is a file without a name that has one pack.
type spool struct {
	*os.File
	from, to int64 // of what was discarded last, and is not freed yet
}

// leastFreed is the least that is freed at a time, in bytes, and blockSize the size of a block of a file system.
const (
	leastFreed = 64 << 10
	blockSize  = 4 << 10
)

// Discard frees whole blocks: see [squashfs.Discarder].
func (s *spool) Discard(from, size int64) {
	if from != s.to {
		s.from = from
	}
	s.to = from + size
	start, end := (s.from+blockSize-1)&^(blockSize-1), s.to&^(blockSize-1)
	if end-start < leastFreed {
		return
	}
	punch(s.File, start, end-start)
	s.from = end
}
