package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// compression says how layers are packed, with temporary files in a folder.
func compression(s spec.Store, tmp string) squashfs.Options {
	o := squashfs.Options{BlockSize: s.BlockSize, Compression: s.Compression, Level: s.CompressionLevel, Tmp: tmp}
	_ = o.Validate() // fills in the defaults; the appliance is valid
	return o
}

// writeStore writes the store. bytes are those of the blobs that it reads. A pack in the cache that is damaged is
// removed and made again, once.
func writeStore(
	ctx context.Context, f format.Format, o format.Options, p *plan, files []format.File, bytes int64,
) (artifact.Store, error) {
	for removed := map[string]bool{}; ; {
		store, err := writeStoreOnce(ctx, f, o, p, files, bytes)
		var damage *squashfs.Damage
		if !errors.As(err, &damage) {
			return store, err
		}
		pack, ok := damage.File.(*os.File)
		if !ok {
			return store, err
		}
		if found, failed := o.Packing.Cache.RemoveFile(pack); !found || failed != nil || removed[pack.Name()] {
			return store, errors.Join(err, failed)
		}
		removed[pack.Name()] = true
	}
}

func writeStoreOnce(
	ctx context.Context, f format.Format, o format.Options, p *plan, files []format.File, bytes int64,
) (_ artifact.Store, err error) {
	store, err := f.Open(ctx, o)
	if err != nil {
		return artifact.Store{}, err
	}
	defer func() { err = errors.Join(err, store.Abort()) }()
	o.Hooks.Begin("read layers", bytes)
	if err := store.Fill(ctx, p.client, p.images); err != nil {
		return artifact.Store{}, err
	}
	for _, file := range files {
		err := store.Add(file)
		if errors.Is(err, compose.ErrChanged) {
			err = fmt.Errorf("%w: %w", ErrNodeBinary, err)
		}
		if err != nil {
			return artifact.Store{}, err
		}
	}
	return store.Close()
}

// ownFiles are pinbox's own files in the store. delta is nil for an appliance, and program if the store gets none.
func ownFiles(p *plan, delta *base.Common, program *os.File) []format.File {
	files := []format.File{{Name: layout.OwnLock, Perm: 0o644, Write: p.lock.Encode}}
	for _, s := range p.sets {
		name := path.Join(layout.OwnSets, pinset.FileName(s.Name))
		files = append(files, format.File{Name: name, Perm: 0o644, Content: s.Render()})
	}
	if delta != nil {
		files = append(files, format.File{Name: layout.OwnDelta, Perm: 0o644, Write: delta.Delta.Encode})
	}
	for _, f := range p.config.StoreFiles {
		files = append(files, format.File{Name: path.Join(layout.OwnFiles, f.Path), Perm: 0o600, Content: f.Content})
	}
	if program != nil {
		files = append(files, format.File{Name: layout.OwnProgram, Perm: 0o755, Program: program})
	}
	return files
}

// artifactFiles are the files of OCI artifacts in the store: an OCI image layout, in which each blob is once.
func artifactFiles(
	ctx context.Context, client *storage.Client, artifacts []storage.Resolved, packs cache.Cache, hooks progress.Hooks,
) (files []format.File) {
	if len(artifacts) == 0 {
		return nil
	}
	written := map[digest.Digest]bool{}
	for _, a := range artifacts {
		for n, b := range a.Artifact.Blobs {
			if written[b.Digest] {
				continue
			}
			written[b.Digest] = true
			open := func() (io.ReadCloser, error) {
				return a.OpenBlob(ctx, client, b, packs, format.Reading(hooks), hooks.Add)
			}
			if n == 0 {
				open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.Manifest)), nil }
			}
			files = append(files, format.File{Name: layout.ArtifactBlob(b.Digest), Perm: 0o644, Open: open, Digest: b.Digest})
		}
	}
	return append(files,
		format.File{Name: layout.ArtifactsIndex, Perm: 0o644, Content: layout.RenderArtifacts(locked(artifacts))},
		format.File{Name: layout.ArtifactsVersion, Perm: 0o644, Content: []byte(layout.ArtifactsVersionText)})
}

// locked are what a lock has of OCI artifacts.
func locked(artifacts []storage.Resolved) (all []pinset.LockedArtifact) {
	for _, a := range artifacts {
		all = append(all, *a.Artifact)
	}
	return all
}

// modTime is the modification time of files that do not come from an image. Without Options.ModTime it
// depends on the images alone, so that equal input gives equal bytes.
func modTime(o Options, images []storage.Resolved) time.Time {
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

// ErrCache says that the cache's folder cannot be used.
var ErrCache = fault.New(fault.Usage, "cache cannot be used",
	"name a folder with --cache-dir, or build with --no-cache")

// Cache says where packs are kept for later builds.
type Cache struct {
	// Dir is the cache's folder; "" means no cache.
	Dir string
	// Limit is the size in bytes above which a build removes the packs that were not used for the longest
	// time; 0 means no limit.
	Limit int64
	// Optional makes it a warning that the folder cannot be used, and not an error.
	Optional bool
}

// open opens the cache, if there is one.
func (c *Cache) open() (packs cache.Cache, warnings []string, err error) {
	if c.Dir == "" {
		return packs, nil, nil
	}
	packs, err = cache.Open(c.Dir)
	if err != nil && c.Optional {
		*c = Cache{}
		return cache.Cache{}, []string{fmt.Sprintf("nothing is kept for later builds: %v: %v", ErrCache, err)}, nil
	}
	if err != nil {
		return cache.Cache{}, nil, fmt.Errorf("%w: %w", ErrCache, err)
	}
	return packs, nil, nil
}

// prune removes packs above the limit after a build. If the build succeeded, a failure is a warning.
func (c Cache) prune(packs cache.Cache, built error) (warnings []string) {
	if c.Limit == 0 {
		return nil
	}
	if _, failed := packs.Prune(c.Limit); failed != nil && built == nil {
		return []string{fmt.Sprintf("the cache keeps its size: %v", failed)}
	}
	return nil
}
