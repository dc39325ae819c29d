package builder

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/tarball"
)

// Format is what a store is written as.
type Format string

// Formats of a store. All hold the same tree.
const (
	// FormatSquashfs is an image that nodes mount.
	FormatSquashfs Format = "squashfs"
	// FormatTar is for whoever makes the nodes' file system.
	FormatTar Format = "tar"
	// FormatDir is likewise, and can be CRI-O's own store.
	FormatDir Format = "dir"
)

// isFolder says whether the store is a folder on the node, which somebody puts there.
func (f Format) isFolder() bool { return f == FormatTar || f == FormatDir }

// check says whether this process may write the format.
func (f Format) check() error {
	if f == FormatDir {
		return root.Check()
	}
	return nil
}

// confined says what the store that was written is not good for, if there is something.
func (f Format) confined() []string {
	if f != FormatDir || root.Confined() == "" {
		return nil
	}
	return []string{root.Confined()}
}

// validateStore looks at what a format does not go with.
func (s Spec) validateStore() error {
	squash := squashfs.Options{BlockSize: s.Store.BlockSize, Compression: s.Store.Compression}
	if err := squash.Validate(); err != nil {
		return fmt.Errorf("spec.store: %w", err)
	}
	switch s.Store.Format {
	case "", FormatSquashfs:
		return nil
	case FormatTar, FormatDir:
	default:
		return fmt.Errorf("spec.store.format is %q; it is squashfs, tar or dir", s.Store.Format)
	}
	only := func(field string) error {
		return fmt.Errorf("%s goes with spec.store.format squashfs alone, not with %s", field, s.Store.Format)
	}
	switch {
	case s.Store.Compression != "":
		return only("spec.store.compression")
	case s.Store.BlockSize != 0:
		return only("spec.store.blockSize")
	case s.ISO.Mode == modeInstall:
		return only("spec.iso.mode install")
	case s.ISO.Base != "":
		return only("spec.iso.base")
	case s.Node.Store.VolumeLabel != "":
		return only("spec.node.store.volumeLabel")
	case s.Node.Store.PartitionLabel != "":
		return only("spec.node.store.partitionLabel")
	case s.Store.Format == FormatTar && s.Node.Store.Path == ignition.MainStore:
		return fmt.Errorf("spec.node.store.path %s is CRI-O's own store, which spec.store.format dir is for", ignition.MainStore)
	}
	return nil
}

// stored is what was written of the store.
type stored struct {
	name string // in the appliance's folder
	size int64  // bytes
	sum  string // SHA-256, "" of a folder
}

// digest of the store's file, "" of a folder.
func (s stored) digest() string {
	if s.sum == "" {
		return ""
	}
	return "sha256:" + s.sum
}

// storeFile is the store's file as it grows.
type storeFile interface {
	compose.Output
	// finish writes what is left, with the top of the tree.
	finish(top *squashfs.Inode) (stored, error)
}

// openStore starts the store's file; name is that of a squashfs. The caller ends it with finish and Abort.
func (s *stage) openStore(ctx context.Context, o Options, pool *squashfs.Pool, modTime time.Time, name string) (storeFile, error) {
	if o.Appliance.Spec.Store.Format != FormatTar {
		w, err := squashfs.NewWriter(pool.ImageOptions(modTime))
		return &squashFile{Writer: w, ctx: ctx, stage: s, opts: o, name: name}, err
	}
	f, err := s.create(StoreTar)
	if err != nil {
		return nil, err
	}
	// It grows while layers are read, which is what there is to show.
	sum := &summer{ctx: ctx, w: f, sum: sha256.New(), done: func(int) {}}
	out := bufio.NewWriterSize(sum, 1<<20)
	return &tarFile{Writer: tarball.NewWriter(out, pool), file: f, out: out, sum: sum}, nil
}

// squashFile is laid out before it is written.
type squashFile struct {
	*squashfs.Writer
	ctx   context.Context
	stage *stage
	opts  Options
	name  string // in the stage
}

func (q *squashFile) finish(top *squashfs.Inode) (stored, error) {
	image, err := q.Close(top)
	if err != nil {
		return stored{}, err
	}
	defer image.Close()
	if err := q.opts.checkOut(image.Size()); err != nil {
		return stored{}, err
	}
	q.opts.Hooks.step("write store", image.Size())
	f, err := q.stage.create(q.name)
	if err != nil {
		return stored{}, err
	}
	defer f.Abort()
	w := &summer{ctx: q.ctx, w: f, sum: sha256.New(), done: q.opts.Hooks.done}
	if _, err := image.WriteTo(w); err != nil {
		return stored{}, err
	}
	return w.stored(q.name), f.Commit()
}

// tarFile is written while it is composed.
type tarFile struct {
	*tarball.Writer
	file *atomicfile.File
	out  *bufio.Writer
	sum  *summer
}

func (t *tarFile) finish(top *squashfs.Inode) (stored, error) {
	if err := errors.Join(t.Close(top), t.out.Flush()); err != nil {
		return stored{}, err
	}
	return t.sum.stored(StoreTar), t.file.Commit()
}

// Abort gives up what is not finished.
func (t *tarFile) Abort() {
	t.Writer.Abort()
	t.file.Abort()
}

// stored tells of a file that was written whole.
func (s *summer) stored(name string) stored {
	return stored{name: name, size: s.size, sum: hex.EncodeToString(s.sum.Sum(nil))}
}
