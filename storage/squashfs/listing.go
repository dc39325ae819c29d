package squashfs

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"syscall"
)

// maxListing bounds the listing of a directory, in bytes: about three million files.
const maxListing = 64 << 20

// dirent is a name in a directory, with the inode's reference and its basic kind.
type dirent struct {
	name string
	ref  uint64
	kind uint16
}

// entries calls f for each entry of a directory, in the order of their names, until f fails.
func (r *Reader) entries(n *node, f func(dirent) error) error {
	return r.entriesFrom(n, stretch{start: n.start}, f)
}

// stretch is where a stretch of a directory's listing starts: the block, and how many bytes of the listing are before
// it.
type stretch struct {
	start  uint64
	before int64
}

// entriesFrom calls f for each entry of a directory that is not before a stretch, in the order of their names, until f
// fails.
func (r *Reader) entriesFrom(n *node, first stretch, f func(dirent) error) error {
	if n.kind != typeDir {
		return syscall.ENOTDIR
	}
	left := int64(n.size) - dirExtraSize
	if left > maxListing {
		return damaged("inode %d lists %d bytes", n.Number, left)
	}
	left -= first.before
	c := r.cursorAt(r.sb.DirTable, first.start<<16|uint64((int64(n.offset)+first.before)%metaBlockSize))
	for before := ""; c.n < left; {
		var head struct{ Last, Start, Number uint32 }
		if err := c.decode(&head); err != nil {
			return err
		}
		if head.Last >= dirRunLength {
			return damaged("inode %d lists %d names at once", n.Number, head.Last)
		}
		for range head.Last + 1 {
			e, err := c.entry(uint64(head.Start) << 16)
			if err != nil {
				return err
			}
			if err := n.checkEntry(e, before); err != nil {
				return err
			}
			if err := f(e); err != nil {
				return err
			}
			before = e.name
		}
	}
	if left > 0 && c.n != left {
		return damaged("the listing of inode %d ends within a name", n.Number)
	}
	return nil
}

func (c *cursor) entry(block uint64) (dirent, error) {
	var e [8]byte // without reflection, since a listing has many
	if err := c.read(e[:]); err != nil {
		return dirent{}, err
	}
	le := binary.LittleEndian
	offset, kind, size := le.Uint16(e[:]), le.Uint16(e[4:]), le.Uint16(e[6:])
	if size >= maxNameLen {
		return dirent{}, damaged("a name of %d bytes", size)
	}
	var name [maxNameLen]byte
	err := c.read(name[:size+1])
	return dirent{name: string(name[:size+1]), ref: block | uint64(offset), kind: kind}, err
}

// checkEntry refuses entries that no writer makes. Names are unique because they are in order. A
// directory comes after the directories in it, to which its listing refers: there are no cycles.
func (n *node) checkEntry(e dirent, before string) error {
	switch {
	case e.name == "." || e.name == ".." || strings.ContainsAny(e.name, "/\x00"):
		return damaged("inode %d lists the name %q", n.Number, e.name)
	case e.name <= before:
		return damaged("inode %d lists %q after %q", n.Number, e.name, before)
	case e.kind == typeDir && e.ref >= n.ref:
		return damaged("inode %d lists the directory %q, which comes after it", n.Number, e.name)
	}
	return nil
}

// child reads the inode of an entry.
func (r *Reader) child(e dirent) (*node, error) {
	n, err := r.node(e.ref)
	if err == nil && n.kind != e.kind {
		err = damaged("%q is of kind %d, but listed as kind %d", e.name, n.kind, e.kind)
	}
	return n, err
}

// errEnough ends a listing.
var errEnough = errors.New("enough entries")

// find returns the entry of a name.
func (r *Reader) find(n *node, name string) (found dirent, ok bool, err error) {
	if r.indexes.worth(n) {
		all, err := r.indexes.of(r, n)
		at, ok := slices.BinarySearchFunc(all, name, func(e dirent, name string) int { return strings.Compare(e.name, name) })
		if !ok {
			return dirent{}, false, err
		}
		return all[at], true, nil
	}
	first, err := n.stretch(name)
	if err != nil {
		return dirent{}, false, err
	}
	err = r.entriesFrom(n, first, func(e dirent) error {
		if e.name < name {
			return nil
		}
		found, ok = e, e.name == name
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, ok, err
}

// stretch returns where the entries start among which a name is, by the index that the image has of a large directory:
// it names the first entry of each further block of the listing.
func (n *node) stretch(name string) (stretch, error) {
	last, c := stretch{start: n.start}, n.blocks
	for range n.indexed {
		var head struct{ Before, Start, Last uint32 } // Last is the length of the name, less one
		if err := c.decode(&head); err != nil {
			return last, err
		}
		if head.Last >= maxNameLen {
			return last, damaged("a name of %d bytes", head.Last)
		}
		var first [maxNameLen]byte
		if err := c.read(first[:head.Last+1]); err != nil {
			return last, err
		}
		if string(first[:head.Last+1]) > name {
			break
		}
		last = stretch{uint64(head.Start), int64(head.Before)}
	}
	return last, nil
}

// list returns at most so many entries of a directory after the first ones; 0 means all.
func (r *Reader) list(n *node, after, most int) (all []dirent, err error) {
	err = r.entries(n, func(e dirent) error {
		if after--; after >= 0 {
			return nil
		}
		if all = append(all, e); len(all) == most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return slices.Clip(all), err
}

// Limits of the listings that are kept, in bytes. In a short one, a name is found quickly without that. Three folders
// of a store have an entry for each layer: with 100,000 layers, their listings have 19 MiB.
const (
	minIndexed = 1 << 10
	maxIndexed = 24 << 20 // together
	maxIndexes = 8
	// maxSearched bounds the number of directories of which is known how often they were searched.
	maxSearched = 10_000
)

// index has the entries of a directory.
type index struct {
	of      uint64 // the reference of the directory's inode
	size    uint64 // of the listing in bytes
	entries []dirent
}

// indexes are those of the directories that were last searched; the most recently used is the last. To read each file
// of a directory would otherwise take time in the square of their number, also if the files of several directories
// are read in turn.
type indexes struct {
	kept []index
	// searched is by the reference of a directory that is not kept: the bytes of its listing that were read to find
	// names. When they are as many as it has, it is listed: so to find a name of one directory of many, in turn, does
	// not take the length of the listing, for each name.
	searched map[uint64]uint64
}

// worth reports whether to find a name in the listing as a whole, and not in the part that the image's own index names.
func (x *indexes) worth(n *node) bool {
	if n.size < minIndexed || n.size > maxIndexed {
		return false
	}
	if n.indexed == 0 || slices.ContainsFunc(x.kept, func(i index) bool { return i.of == n.ref }) {
		return true
	}
	if x.searched == nil || len(x.searched) == maxSearched {
		x.searched = map[uint64]uint64{}
	}
	if x.searched[n.ref] += metaBlockSize; x.searched[n.ref] < n.size {
		return false
	}
	delete(x.searched, n.ref)
	return true
}

// of returns the entries of a directory that is not small.
func (x *indexes) of(r *Reader, n *node) ([]dirent, error) {
	all := x.kept
	if at := slices.IndexFunc(all, func(i index) bool { return i.of == n.ref }); at >= 0 {
		i := all[at]
		x.kept = append(slices.Delete(all, at, at+1), i)
		return i.entries, nil
	}
	size := n.size
	for at := len(all) - 1; at >= 0; at-- {
		if size += all[at].size; size > maxIndexed || len(all)-at == maxIndexes {
			all = slices.Delete(all, 0, at+1)
			break
		}
	}
	entries, err := r.list(n, 0, 0)
	if err == nil {
		all = append(all, index{of: n.ref, size: n.size, entries: entries})
	}
	x.kept = all
	return entries, err
}
