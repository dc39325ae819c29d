package storage

import (
	"cmp"
	"encoding/hex"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// needed is a layer of an image, by their numbers: 100,000 jobs would take 40 MB.
type needed struct{ image, layer int32 }

func (n needed) in(images []Resolved) *pinset.LockedLayer { return images[n.image].Layers[n.layer] }

// layersToFetch returns the layers that the store lacks, each once, in the order of the images. uses has those that
// it does not need in just one place: in several, on different layers; or in none, if it has the place from another
// blob.
func layersToFetch(images []Resolved, store *compose.Store) (later []needed, uses map[content]int) {
	places, seen := map[[32]byte]struct{}{}, map[content]struct{}{}
	uses = map[content]int{}
	for i := range images {
		parent := ""
		for n, l := range images[i].Layers {
			_, stored := store.Lookup(compose.Layer{Parent: parent, DiffID: l.DiffID})
			parent = layout.LayerID(parent, l.DiffID)
			if stored {
				continue
			}
			var place [32]byte
			_, _ = hex.Decode(place[:], []byte(parent)) // a SHA-256
			c := contentOf(l)
			_, again := seen[c]
			if !again {
				seen[c] = struct{}{}
				later = append(later, needed{int32(i), int32(n)})
			}
			count, several := uses[c]
			if !several && again {
				count = 1
			}
			if _, taken := places[place]; !taken {
				places[place] = struct{}{}
				count++
			}
			if uses[c] = count; count == 1 {
				delete(uses, c)
			}
		}
	}
	return later, uses
}

// largestFirst moves the largest layers to the front, up to firstBytes and at least one, and keeps the order of the
// others. A large layer that comes last is packed alone, while the link and the other cores idle.
func largestFirst(later []needed, images []Resolved) []needed {
	size := func(n needed) int64 { return n.in(images).Size }
	large := slices.DeleteFunc(slices.Clone(later), func(n needed) bool { return size(n) < largePart })
	slices.SortStableFunc(large, func(a, b needed) int { return cmp.Compare(size(b), size(a)) })
	first := map[needed]bool{}
	for left := int64(firstBytes); left > 0 && len(first) < len(large); {
		n := large[len(first)]
		if left -= size(n); left < 0 && len(first) > 0 {
			break
		}
		first[n] = true
	}
	return append(large[:len(first)], slices.DeleteFunc(later, func(n needed) bool { return first[n] })...)
}

// take waits for a layer, and returns its pack, which the caller closes.
func (f *fetcher) take(l *pinset.LockedLayer) (pack *os.File, size int64, err error) {
	c := contentOf(l)
	f.mu.Lock()
	for f.jobs[c] == nil {
		f.urgent = true
		f.more.Broadcast()
		f.more.Wait()
	}
	j := f.jobs[c]
	f.urgent = false
	f.mu.Unlock()
	<-j.done
	if j.err != nil {
		return nil, 0, j.err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.uses[c]; n > 1 {
		f.uses[c] = n - 1
		pack, err = Duplicate(j.pack)
		return pack, j.size, err
	}
	delete(f.jobs, c)
	f.more.Broadcast()
	return j.pack, j.size, nil
}

// done ends a job. Its pack is closed if only the blob was to be verified. The source of its repository is forgotten if
// nothing else is fetched from there.
func (f *fetcher) done(j *job) {
	close(j.done)
	f.mu.Lock()
	defer f.mu.Unlock()
	j.ended = true
	if f.left != nil {
		if f.left[j.img.Repository]--; f.left[j.img.Repository] == 0 {
			f.remote.forget(j.img.Repository)
		}
	}
	c := contentOf(j.layer)
	if n, known := f.uses[c]; known && n == 0 && j.err == nil {
		j.close()
		delete(f.jobs, c)
		f.more.Broadcast()
	}
}

// drop forgets what has no job yet.
func (f *fetcher) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.later, f.all = nil, true
	f.more.Broadcast()
}

func (f *fetcher) closePacks() {
	for _, j := range f.jobs {
		j.close()
	}
}

// Duplicate opens a file again, under its name.
func Duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
