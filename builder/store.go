package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// files are pinbox's own in the store, in its folder there: what a node needs to know.
func (c contents) files(lock pinset.Lock) ([]format.File, error) {
	var b bytes.Buffer
	err := lock.Encode(&b)
	files := []format.File{{Name: layout.OwnLock, Perm: 0o644, Content: b.Bytes()}}
	for _, s := range c.sets {
		name := path.Join(layout.OwnSets, pinset.FileName(s.Name))
		files = append(files, format.File{Name: name, Perm: 0o644, Content: s.Render()})
	}
	if c.common != nil {
		files = append(files, format.File{Name: layout.OwnDelta, Perm: 0o644, Content: c.delta})
	}
	for _, f := range c.carried {
		files = append(files, format.File{Name: path.Join(layout.OwnFiles, f.Path), Perm: 0o600, Content: f.Content})
	}
	if c.program != nil {
		files = append(files, format.File{Name: layout.OwnProgram, Perm: 0o755, Program: c.program})
	}
	return files, err
}

// packing is how layers are packed.
func (o Options) packing() squashfs.Options {
	s := o.Appliance.Spec.Store
	opts := squashfs.Options{BlockSize: s.BlockSize, Compression: s.Compression}
	_ = opts.Validate() // as that of the appliance was
	return opts
}

// writing is what it takes to write a store.
type writing struct {
	Options
	contents
	dir    string // in which it grows
	client *storage.Client
	kept   cache.Cache
}

// store writes the store. The lock that it returns knows the unpacked sizes.
func (w writing) store(ctx context.Context) (lock pinset.Lock, store artifact.Store, err error) {
	for lost := map[string]bool{}; ; {
		lock, store, err = w.once(ctx)
		var damage *squashfs.Damage
		if !errors.As(err, &damage) {
			return lock, store, err
		}
		// What a disk has lost of what was kept is made again.
		pack, ok := damage.File.(*os.File)
		if !ok {
			return lock, store, err
		}
		if forgotten, failed := w.kept.RemoveFile(pack); !forgotten || failed != nil || lost[pack.Name()] {
			return lock, store, errors.Join(err, failed) // the second time it is no accident
		}
		lost[pack.Name()] = true
	}
}

func (w writing) once(ctx context.Context) (lock pinset.Lock, made artifact.Store, err error) {
	store, err := w.format().Open(ctx, w.storeOptions())
	if err != nil {
		return lock, made, err
	}
	defer func() { err = errors.Join(err, store.Abort()) }()
	w.Hooks.Begin("read layers", w.lock(w.fresh).Totals().Bytes)
	if err := store.Fill(ctx, w.client, w.images); err != nil {
		return lock, made, err
	}
	lock = w.lock(w.images)
	files, err := w.files(lock)
	if err != nil {
		return lock, made, err
	}
	for _, f := range files {
		err := store.Add(f)
		if errors.Is(err, format.ErrChanged) {
			err = fmt.Errorf("%w: %w", ErrNodeBinary, err)
		}
		if err != nil {
			return lock, made, err
		}
	}
	made, err = store.Close()
	return lock, made, err
}

func (w writing) lock(images []storage.Resolved) pinset.Lock {
	return makeLock(w.Appliance.Spec.Platform, w.sets, images)
}

func (w writing) storeOptions() format.Options {
	about := w.format().Describe()
	o := format.Options{
		Dir: w.dir, Name: about.File, ModTime: w.stamp(w.images), Packing: w.packing(),
		Cache: w.kept, CheckSize: w.checkOut, Hooks: w.Hooks,
	}
	if w.common != nil {
		o.Name = about.Delta
		o.AddBases = func(s *compose.Store) error { return w.common.AddTo(s, w.lock(w.images).Images) }
	}
	return o
}

// stamp is the time of files that are no image's own: it depends on nothing but the
// images, if none is asked for.
func (o Options) stamp(images []storage.Resolved) time.Time {
	if !o.ModTime.IsZero() {
		return o.ModTime
	}
	t := time.Unix(0, 0)
	for _, img := range images {
		if img.Created.After(t) {
			t = img.Created
		}
	}
	return t
}
