package builder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrSpace says that a disk has not enough free space for a build.
var ErrSpace = fault.New(fault.Space, "not enough space",
	"free space there, or choose another folder with -o; another --cache-dir, --no-cache or `pinbox cache prune "+
		"--all` reduces what is needed")

// need is what a build writes below one folder, in bytes.
type need struct {
	dir, what string
	bytes     int64
	exact     bool
}

// cachedSize returns the size of a layer's pack, if the cache has it.
type cachedSize func(*pinset.LockedLayer) (int64, bool)

// packsSize returns the size of the packs of all layers, of those packs that the cache has, and of the
// largest pack.
func packsSize(images []storage.Resolved, size cachedSize) (all, cached, largest int64) {
	for _, l := range distinctLayers(images) {
		packed, ok := size(l)
		if ok {
			cached += packed
		} else {
			packed = guessPacked(l)
		}
		all, largest = all+packed, max(largest, packed)
	}
	return all, cached, largest
}

// distinctLayers returns the layers of images, each once.
func distinctLayers(images []storage.Resolved) (all []*pinset.LockedLayer) {
	seen := map[digest.Digest]bool{}
	for _, img := range images {
		for _, l := range img.Layers {
			if !seen[l.DiffID] {
				seen[l.DiffID] = true
				all = append(all, l)
			}
		}
	}
	return all
}

// guessPacked estimates the size of a layer's pack. The estimate is low, because an estimate that is too
// high would refuse a build that fits. A pack has about the size of the compressed blob, or less if files
// repeat; how well an uncompressed layer compresses is not known.
func guessPacked(l *pinset.LockedLayer) int64 {
	if l.Digest == l.DiffID {
		return l.Size / 20
	}
	return l.Size * 2 / 3
}

// unpackedSize returns the size of the files of all layers. known has the sizes in an earlier lock, by
// DiffID. Other sizes are low estimates.
func unpackedSize(images []storage.Resolved, known map[digest.Digest]int64) (all int64) {
	for _, l := range distinctLayers(images) {
		size := known[l.DiffID]
		if size == 0 {
			if size = l.Size; l.Digest != l.DiffID {
				size *= 2
			}
		}
		all += size
	}
	return all
}

// needs returns what a build will write. own is the size of pinbox's own files.
func needs(
	o Options, images []storage.Resolved, blobs []pinset.LockedBlob, own int64, size cachedSize,
) ([]need, error) {
	all, cached, largest := packsSize(images, size)
	unpacked := unpackedSize(images, lockedSizes(o.Lock))
	for _, b := range blobs { // how well they compress is not known: models do not
		packed, ok := size(&pinset.LockedLayer{Digest: b.Digest})
		if ok {
			cached += packed
		} else {
			packed = b.Size / 20
		}
		all, largest, unpacked = all+packed, max(largest, packed), unpacked+b.Size
	}
	n := formatOf(o).Needs(format.Sizes{
		Packed: all, Cached: cached, Largest: largest, Unpacked: unpacked,
		Own: own, HasCache: o.Cache.Dir != "",
	})
	if n == (format.Needs{}) {
		return nil, nil // checkStore will know the exact size
	}
	out, err := outNeeds(o, n.Store)
	out.bytes += n.Temporary
	written := []need{out}
	if n.Cache > 0 && !sharesCache(o) {
		written = append(written, need{dir: o.Cache.Dir, what: "the cache", bytes: n.Cache})
	}
	return written, err
}

// outNeeds returns what the output folder takes with a store of the size in bytes.
func outNeeds(o Options, store int64) (need, error) {
	n := need{dir: filepath.Dir(filepath.Clean(o.Out)), what: "the store", bytes: store}
	base := o.Appliance.Spec.ISO.Base
	if base == "" {
		return n, nil
	}
	fi, err := os.Stat(base)
	if err != nil {
		return n, err
	}
	if sharesBlocks(n.dir) {
		return n, nil // the ISO shares the blocks of base and store
	}
	n.what += " and the ISO"
	n.bytes += fi.Size()
	if o.Appliance.Spec.Node.Store.VolumeLabel == "" {
		n.bytes += store
	}
	return n, nil
}

// lockedSizes returns the unpacked sizes of the layers in a lock, by DiffID.
func lockedSizes(lock pinset.Lock) map[digest.Digest]int64 {
	sizes := map[digest.Digest]int64{}
	for _, img := range lock.Images {
		for _, l := range img.Layers {
			sizes[l.DiffID] = l.UnpackedSize
		}
	}
	return sizes
}

// disk is a file system with its free space in bytes.
type disk struct {
	id   any
	free int64
}

// fits returns ErrSpace if a disk has not enough free space. Needs on the same disk add up.
func fits(needs []need, diskOf func(dir string) (disk, error)) error {
	for n, first := range needs {
		d, err := diskOf(first.dir)
		if err != nil {
			return err
		}
		var sum int64
		var what []string
		for _, other := range needs[n:] {
			o, err := diskOf(other.dir)
			if err != nil {
				return err
			}
			if o.id == d.id {
				sum += other.bytes
				about := "about "
				if other.exact {
					about = ""
				}
				what = append(what, fmt.Sprintf("%s needs %s%s", other.what, about, bytesize.Format(other.bytes)))
			}
		}
		if sum > d.free {
			return fmt.Errorf("%s: %w: %s, and %s are free",
				first.dir, ErrSpace, strings.Join(what, ", "), bytesize.Format(d.free))
		}
	}
	return nil
}

// checkSpace checks the free space before the first layer is read. program is the one in the store, or nil.
func checkSpace(o Options, images, artifacts []storage.Resolved, program *os.File, packs cache.Cache) error {
	var own int64
	if program != nil {
		fi, err := program.Stat()
		if err != nil {
			return err
		}
		own = fi.Size()
	}
	encoding := compression(o.Appliance.Spec.Store, "").Encoding()
	all, err := needs(o, images, pinset.ArtifactBlobs(locked(artifacts)), own, func(l *pinset.LockedLayer) (int64, bool) {
		if l.DiffID == "" {
			return packs.Size(cache.Key{Digest: l.Digest, Encoding: encoding + format.BlobEncoding})
		}
		return packs.Size(cache.Key{Digest: l.DiffID, Blob: l.Digest, Encoding: encoding})
	})
	if err != nil {
		return err
	}
	return fitsPruned(all, diskOf, packs.PrunePartials)
}

// fitsPruned compares the needs with the free space, again after prune where it is too little: partial blobs of
// interrupted builds may take it.
func fitsPruned(needs []need, diskOf func(string) (disk, error), prune func() error) error {
	err := fits(needs, diskOf)
	if !errors.Is(err, ErrSpace) {
		return err
	}
	if err := prune(); err != nil {
		return err
	}
	return fits(needs, diskOf)
}

// diskOf returns the disk of a folder, or of the nearest parent that exists.
func diskOf(dir string) (disk, error) {
	var s unix.Statfs_t
	var st unix.Stat_t
	for {
		err := unix.Stat(dir, &st)
		if err == nil {
			err = unix.Statfs(dir, &s)
		}
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return disk{}, fmt.Errorf("free space of %s: %w", dir, err)
		}
		return disk{id: uint64(st.Dev), free: int64(s.Bavail) * int64(s.Bsize)}, nil
	}
}

// sharesCache reports whether the store shares the blocks of the packs in the cache.
func sharesCache(o Options) bool {
	out, err := diskOf(filepath.Dir(filepath.Clean(o.Out)))
	packs, cacheErr := diskOf(o.Cache.Dir)
	return err == nil && cacheErr == nil && out.id == packs.id && sharesBlocks(o.Cache.Dir) &&
		formatOf(o).Describe().Name == format.Squashfs
}

// checkStore checks the free space again when the exact size of the store is known.
func checkStore(o Options, store int64) error {
	if o.Cache.Dir == "" || sharesCache(o) {
		return nil // temporary packs on the same disk will be removed, and shared blocks are there already
	}
	n, err := outNeeds(o, store)
	n.exact = true
	if err != nil {
		return err
	}
	return fits([]need{n}, diskOf)
}
