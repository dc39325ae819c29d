package squashfs

import (
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

// dirEntry is the part of an entry that has a fixed size.
type dirEntry struct {
	Offset uint16
	Delta  int16
	Kind   uint16
	Size   uint16
}

// entries calls f for each entry of a directory, in the order of their names, until f fails.
func (r *Reader) entries(n *node, f func(dirent) error) error {
	if n.kind != typeDir {
		return syscall.ENOTDIR
	}
	left := int64(n.size) - dirExtraSize
	if left > maxListing {
		return damaged("inode %d lists %d bytes", n.Number, left)
	}
	c := r.cursorAt(r.sb.DirTable, n.start<<16|uint64(n.offset))
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
	var e dirEntry
	if err := c.decode(&e); err != nil {
		return dirent{}, err
	}
	if e.Size >= maxNameLen {
		return dirent{}, damaged("a name of %d bytes", e.Size)
	}
	name := make([]byte, e.Size+1)
	err := c.read(name)
	return dirent{name: string(name), ref: block | uint64(e.Offset), kind: e.Kind}, err
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
	if n.size >= minIndexed && n.size <= maxIndexed {
		if r.index.entries == nil || r.index.of != n.ref {
			err = r.index.read(r, n)
		}
		found, ok = r.index.entries[name]
		return found, ok, err
	}
	err = r.entries(n, func(e dirent) error {
		if e.name == name {
			found, ok = e, true
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, ok, err
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

// Limits of an indexed listing, in bytes. A short one is found quickly without an index; one of
// 8 MiB has 100,000 layers.
const (
	minIndexed = 8 << 10
	maxIndexed = 8 << 20
)

// index has the entries of the directory that was last searched, if that is large: reading a file
// in each of its folders would otherwise take time in the square of their number.
type index struct {
	of      uint64 // the reference of the directory's inode
	entries map[string]dirent
}

func (i *index) read(r *Reader, n *node) error {
	*i = index{entries: map[string]dirent{}}
	err := r.entries(n, func(e dirent) error {
		i.entries[e.name] = e
		return nil
	})
	if err != nil {
		*i = index{}
		return err
	}
	i.of = n.ref
	return nil
}
