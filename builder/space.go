package builder

import (
	"cmp"
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
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrSpace says that a build would not fit on a disk.
var ErrSpace = errors.New("not enough space")

// need is what a build writes to one place, in bytes.
type need struct {
	dir, what string
	bytes     int64
	exact     bool
}

// keptSize gives the size of a layer's pack, if that is kept.
type keptSize func(pinset.LockedLayer) (int64, bool)

// layersNeed is the size of the different layers once they are packed, that of those
// which are kept already, and of the largest.
func layersNeed(images []storage.Resolved, kept keptSize) (all, there, largest int64) {
	seen := map[digest.Digest]bool{}
	for _, img := range images {
		for _, l := range img.Layers {
			if seen[l.DiffID] {
				continue
			}
			seen[l.DiffID] = true
			size, ok := kept(l)
			if ok {
				there += size
			} else {
				size = packedSize(l)
			}
			all, largest = all+size, max(largest, size)
		}
	}
	return all, there, largest
}

// packedSize guesses, rather too little than too much, for who is refused cannot
// build: packed as blocks of a file system a layer has about the size of its blob, less
// if files come twice. Of what is not compressed nobody knows.
func packedSize(l pinset.LockedLayer) int64 {
	if l.Digest == l.DiffID {
		return l.Size / 20
	}
	return l.Size * 2 / 3
}

// unpackedNeeds is the size of the different layers as they are unpacked. known are
// sizes that an earlier lock tells. Others are guessed, again rather too little.
func unpackedNeeds(images []storage.Resolved, known map[digest.Digest]int64) (all int64) {
	seen := map[digest.Digest]bool{}
	for _, img := range images {
		for _, l := range img.Layers {
			if seen[l.DiffID] {
				continue
			}
			seen[l.DiffID] = true
			size := known[l.DiffID]
			if size == 0 {
				if size = l.Size; l.Digest != l.DiffID {
					size *= 2
				}
			}
			all += size
		}
	}
	return all
}

// needs says what a build will write and where. own is the size of the files that are
// no layer's.
func (o Options) needs(images []storage.Resolved, own int64, kept keptSize) ([]need, error) {
	all, there, largest := layersNeed(images, kept)
	n := o.format().Needs(format.Sizes{
		Packed: all, Cached: there, Largest: largest, Unpacked: unpackedNeeds(images, unpackedSizes(o.Lock)),
		Own: own, HasCache: o.Cache.Dir != "",
	})
	if n == (format.Needs{}) {
		return nil, nil // the store's size will be known before it is written
	}
	out, err := o.outNeeds(n.Store)
	out.bytes += n.Temporary
	needs := []need{out}
	if n.Cache > 0 {
		needs = append(needs, need{dir: o.Cache.Dir, what: "the cache", bytes: n.Cache})
	}
	return needs, err
}

// outNeeds is what the output with a store of that size takes.
func (o Options) outNeeds(store int64) (need, error) {
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
		return n, nil // the ISO takes next to nothing of its own
	}
	n.what += " and the ISO"
	n.bytes += fi.Size()
	if o.Appliance.Spec.Node.Store.VolumeLabel == "" {
		n.bytes += store
	}
	return n, nil
}

// unpackedSizes are those that a lock tells, by DiffIDs.
func unpackedSizes(lock pinset.Lock) map[digest.Digest]int64 {
	sizes := map[digest.Digest]int64{}
	for _, img := range lock.Images {
		for _, l := range img.Layers {
			sizes[l.DiffID] = l.UnpackedSize
		}
	}
	return sizes
}

// disk is a file system and what is free on it, in bytes.
type disk struct {
	id   any
	free int64
}

// fits says what there is not enough room for. Needs on one disk add up.
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

// checkSpace finds out before the first byte of a layer is read whether there is room
// for what comes of it.
func (o Options) checkSpace(c contents, kept cache.Cache) error {
	var own int64
	if c.program != nil {
		fi, err := c.program.Stat()
		if err != nil {
			return err
		}
		own = fi.Size()
	}
	encoding := o.packing().Encoding()
	needs, err := o.needs(c.fresh, own, func(l pinset.LockedLayer) (int64, bool) {
		return kept.Size(cache.Key{Digest: l.DiffID, Blob: l.Digest, Encoding: encoding})
	})
	if err != nil {
		return err
	}
	if err = fits(needs, diskOf); errors.Is(err, ErrSpace) {
		// Blobs that no run fetched to their end may be what is in the way.
		err = cmp.Or(kept.PrunePartials(), fits(needs, diskOf))
	}
	return err
}

// sharesBlocks says whether files of the file system can have blocks in common, as the
// ISO has with the store then.
func sharesBlocks(dir string) bool {
	var s unix.Statfs_t
	for unix.Statfs(dir, &s) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return int64(s.Type) == unix.BTRFS_SUPER_MAGIC || int64(s.Type) == unix.XFS_SUPER_MAGIC
}

// diskOf looks at the folder, or at the one in which it will be made.
func diskOf(dir string) (disk, error) {
	var s unix.Statfs_t
	var st unix.Stat_t
	for {
		err := cmp.Or(unix.Stat(dir, &st), unix.Statfs(dir, &s))
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return disk{}, fmt.Errorf("free space of %s: %w", dir, err)
		}
		return disk{id: st.Dev, free: int64(s.Bavail) * int64(s.Bsize)}, nil
	}
}

// checkOut does that again for the output alone, once the store's size is known.
func (o Options) checkOut(store int64) error {
	if o.Cache.Dir == "" {
		return nil // the layers' own room is on that disk, and will be free
	}
	n, err := o.outNeeds(store)
	n.exact = true
	if err != nil {
		return err
	}
	return fits([]need{n}, diskOf)
}
