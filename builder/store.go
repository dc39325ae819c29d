package builder

import (
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

// packing says how layers are packed.
func (o Options) packing() squashfs.Options {
	s := o.Appliance.Spec.Store
	opts := squashfs.Options{BlockSize: s.BlockSize, Compression: s.Compression, Level: s.CompressionLevel}
	_ = opts.Validate() // fills in the defaults; the appliance is valid
	return opts
}

// storeWriter writes the store of an appliance or a delta.
type storeWriter struct {
	Options
	contents
	plan  plan
	dir   string // for the store and temporary files
	packs cache.Cache
}

// write returns the lock with the unpacked sizes of all layers. A pack in the cache that is damaged is
// removed and made again, once.
func (w storeWriter) write(ctx context.Context) (lock pinset.Lock, store artifact.Store, err error) {
	for removed := map[string]bool{}; ; {
		lock, store, err = w.writeOnce(ctx)
		var damage *squashfs.Damage
		if !errors.As(err, &damage) {
			return lock, store, err
		}
		pack, ok := damage.File.(*os.File)
		if !ok {
			return lock, store, err
		}
		if found, failed := w.packs.RemoveFile(pack); !found || failed != nil || removed[pack.Name()] {
			return lock, store, errors.Join(err, failed)
		}
		removed[pack.Name()] = true
	}
}

func (w storeWriter) writeOnce(ctx context.Context) (lock pinset.Lock, made artifact.Store, err error) {
	store, err := w.format().Open(ctx, w.storeOptions())
	if err != nil {
		return lock, made, err
	}
	defer func() { err = errors.Join(err, store.Abort()) }()
	totals := w.plan.lock(w.images).Totals()
	w.Hooks.Begin("read layers", totals.Bytes+totals.ArtifactBytes)
	if err := store.Fill(ctx, w.plan.client, w.plan.Images); err != nil {
		return lock, made, err
	}
	lock = w.plan.lock(w.plan.Images)
	files := append(w.artifactFiles(ctx), w.files(lock)...)
	for _, f := range files {
		err := store.Add(f)
		if errors.Is(err, compose.ErrChanged) {
			err = fmt.Errorf("%w: %w", ErrNodeBinary, err)
		}
		if err != nil {
			return lock, made, err
		}
	}
	made, err = store.Close()
	return lock, made, err
}

// files are pinbox's own files in the store.
func (w storeWriter) files(lock pinset.Lock) []format.File {
	files := []format.File{{Name: layout.OwnLock, Perm: 0o644, Write: lock.Encode}}
	for _, s := range w.plan.Sets {
		name := path.Join(layout.OwnSets, pinset.FileName(s.Name))
		files = append(files, format.File{Name: name, Perm: 0o644, Content: s.Render()})
	}
	if w.common != nil {
		files = append(files, format.File{Name: layout.OwnDelta, Perm: 0o644, Content: w.delta})
	}
	for _, f := range w.storeFiles {
		files = append(files, format.File{Name: path.Join(layout.OwnFiles, f.Path), Perm: 0o600, Content: f.Content})
	}
	if w.program != nil {
		files = append(files, format.File{Name: layout.OwnProgram, Perm: 0o755, Program: w.program})
	}
	return files
}

func (w storeWriter) storeOptions() format.Options {
	about := w.format().Describe()
	o := format.Options{
		Dir: w.dir, Name: about.File, ModTime: w.modTime(w.plan.Images), Packing: w.packing(),
		Compressor: w.plan.packing, Cache: w.packs, CheckSize: w.checkStore, Hooks: w.Hooks, Program: w.program,
	}
	if w.common != nil {
		o.Name = about.Delta
		o.AddBases = func(s *compose.Store) error {
			return w.common.AddTo(s, w.plan.lock(w.plan.Images).Images)
		}
	}
	if w.bases != nil {
		o.Thin = w.thin()
	}
	return o
}

// modTime is the modification time of files that do not come from an image. Without Options.ModTime it
// depends on the images alone, so that equal input gives equal bytes.
func (o Options) modTime(images []storage.Resolved) time.Time {
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
