package builder

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/tarball"
)

// checkFormat says whether this process may write the format.
func checkFormat(f spec.Format) error {
	if f == spec.FormatDir {
		return root.Check()
	}
	return nil
}

// confined says what the store that was written is not good for, if there is something.
func confined(f spec.Format) []string {
	if f != spec.FormatDir || root.Confined() == "" {
		return nil
	}
	return []string{root.Confined()}
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

// sums are those that are known of the store.
func (s stored) sums() artifact.Sums {
	if s.sum == "" {
		return artifact.Sums{}
	}
	return artifact.Sums{s.name: s.sum}
}

// storeFile is the store's file as it grows.
type storeFile interface {
	compose.Output
	// finish writes what is left, with the top of the tree.
	finish(top *squashfs.Inode) (stored, error)
}

// openStore starts the store's file; name is that of a squashfs. The caller ends it with finish and Abort.
func openStore(ctx context.Context, s *artifact.Stage, o Options, pool *squashfs.Pool, modTime time.Time, name string) (storeFile, error) {
	if o.Appliance.Spec.Store.Format != spec.FormatTar {
		w, err := squashfs.NewWriter(pool.ImageOptions(modTime))
		return &squashFile{Writer: w, ctx: ctx, stage: s, opts: o, name: name}, err
	}
	f, err := s.Create(artifact.StoreTar)
	if err != nil {
		return nil, err
	}
	// It grows while layers are read, which is what there is to show.
	sum := artifact.NewHashWriter(ctx, f, func(int) {})
	out := bufio.NewWriterSize(sum, 1<<20)
	return &tarFile{Writer: tarball.NewWriter(out, pool), file: f, out: out, sum: sum}, nil
}

// squashFile is laid out before it is written.
type squashFile struct {
	*squashfs.Writer
	ctx   context.Context
	stage *artifact.Stage
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
	q.opts.Hooks.Begin("write store", image.Size())
	f, err := q.stage.Create(q.name)
	if err != nil {
		return stored{}, err
	}
	defer f.Abort()
	w := artifact.NewHashWriter(q.ctx, f, q.opts.Hooks.Add)
	if _, err := image.WriteTo(w); err != nil {
		return stored{}, err
	}
	return storedAs(q.name, w), f.Commit()
}

// tarFile is written while it is composed.
type tarFile struct {
	*tarball.Writer
	file *atomicfile.File
	out  *bufio.Writer
	sum  *artifact.HashWriter
}

func (t *tarFile) finish(top *squashfs.Inode) (stored, error) {
	if err := errors.Join(t.Close(top), t.out.Flush()); err != nil {
		return stored{}, err
	}
	return storedAs(artifact.StoreTar, t.sum), t.file.Commit()
}

// Abort gives up what is not finished.
func (t *tarFile) Abort() {
	t.Writer.Abort()
	t.file.Abort()
}

// storedAs tells of a file that was written whole.
func storedAs(name string, w *artifact.HashWriter) stored {
	return stored{name: name, size: w.Size(), sum: w.Sum()}
}
