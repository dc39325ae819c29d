package squashfs

import (
	"iter"
	"slices"
	"strings"
)

// directory is what a directory has besides its attributes.
type directory struct {
	entries map[string]*Inode
	parent  *Inode

	leaves *leaves // of the tree, has the files of Add
	id     uint32  // of the directory there
	last   uint32  // record of the directory there
	files  int     // how many the directory has there
	dirs   int     // that are directories
	links  int     // that are further names
}

// Set sets the inode of a name in the directory i. An inode that is not a directory may have several
// names, which are hard links.
func (i *Inode) Set(name string, child *Inode) {
	i.take(name)
	i.put(name, child)
}

func (i *Inode) put(name string, child *Inode) {
	if child.IsDir() {
		child.parent = i
	}
	if i.entries == nil {
		i.entries = map[string]*Inode{}
	}
	i.entries[name] = child
}

// Add is Set of a file that has no other name, or of a directory that is empty or was written, and that the caller does
// not use any more. It takes less memory than Set.
func (i *Inode) Add(name string, file *Inode) {
	i.take(name)
	if i.append(name, file) {
		delete(i.entries, name)
	} else {
		i.put(name, file)
	}
}

// Link is Set of a file that has another name in the same tree, by Set. It takes less memory than Set.
func (i *Inode) Link(name string, file *Inode) {
	i.take(name)
	if i.appendLink(name, file) {
		delete(i.entries, name)
	} else {
		i.put(name, file)
	}
}

// appendLink adds a further name of a file to leaves, unless there is no room.
func (i *Inode) appendLink(name string, file *Inode) bool {
	added := i.place(func(l *leaves) uint32 { return l.addLink(i.id, i.last, name, file) })
	if added {
		i.links++
	}
	return added
}

// append adds a file to leaves, unless it has to stay as it is: a directory that has entries, or more in its mode than
// stat(2) knows, by which the caller finds it among the Children.
func (i *Inode) append(name string, file *Inode) bool {
	if file.IsDir() && (len(file.entries) > 0 || file.files > 0 || file.Mode>>16 > 0) {
		return false
	}
	added := i.place(func(l *leaves) uint32 { return l.add(i.id, i.last, name, file) })
	if added && file.IsDir() {
		i.dirs++
	}
	return added
}

// place adds a record to leaves.
func (i *Inode) place(add func(*leaves) uint32) bool {
	if i.leaves == nil {
		i.leaves = i.top().leaves
	}
	if i.id == 0 {
		i.leaves.dirs++
		i.id = i.leaves.dirs
	}
	at := add(i.leaves)
	if at == 0 {
		return false
	}
	i.last = at
	i.files++
	return true
}

// Spool lets the files of Add be in a file without a name, in the folder tmp, as far as they are many. The
// directory i is the root of a tree that has none yet.
func (i *Inode) Spool(tmp string) { i.leaves = newLeaves(tmp) }

// top returns the root of the tree, which has leaves then.
func (i *Inode) top() *Inode {
	for i.parent != nil {
		i = i.parent
	}
	if i.leaves == nil {
		i.Spool("")
	}
	return i
}

// take removes a file of Add, and returns it; nil if there is none.
func (d *directory) take(name string) *Inode {
	if d.files == 0 {
		return nil
	}
	at := d.leaves.find(d.id, d.last, name)
	if at == 0 {
		return nil
	}
	file, linked := d.leaves.load(at)
	d.leaves.remove(at)
	d.files--
	switch {
	case linked:
		d.links--
	case file.IsDir():
		d.dirs--
	}
	return file
}

// Entry returns the inode of a name in the directory i, or nil.
func (i *Inode) Entry(name string) *Inode {
	child := i.entries[name]
	if child == nil {
		if child = i.take(name); child != nil {
			i.Set(name, child)
		}
	}
	return child
}

// Children returns the inodes in the directory, except those of Add, in any order. One that has several names
// comes several times.
func (d *directory) Children() iter.Seq[*Inode] {
	return func(yield func(*Inode) bool) {
		for _, child := range d.entries {
			if !yield(child) {
				return
			}
		}
		if d.links == 0 {
			return
		}
		for at := range d.records() {
			if child, linked := d.leaves.load(at); linked && !yield(child) {
				return
			}
		}
	}
}

// Added returns how many files the directory has by Add.
func (d *directory) Added() int { return d.files - d.links }

// records returns the positions of the records of the directory.
func (d *directory) records() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if d.files == 0 {
			return
		}
		for at := d.last; at > 0; {
			before := d.leaves.before(at)
			if d.leaves.directory(at) == d.id && !yield(at) { // it was not removed
				return
			}
			at = before
		}
	}
}

// All returns the names and inodes in the directory i, sorted. The inodes of files of Add are copies.
func (i *Inode) All() iter.Seq2[string, *Inode] {
	return func(yield func(string, *Inode) bool) {
		for _, e := range i.list() {
			if !yield(e.name, i.child(e)) {
				return
			}
		}
	}
}

// Err returns why files of Add in the directory, or in others of its tree, could not be read.
func (d *directory) Err() error {
	if d.leaves == nil {
		return nil
	}
	return d.leaves.err
}

// named is a name in a directory. leaf is the position of a file of Add, 0 for others.
type named struct {
	name string
	leaf uint32
}

// list returns the names in a directory, sorted.
func (d *directory) list() []named {
	l := make([]named, 0, len(d.entries)+d.files)
	for name := range d.entries {
		l = append(l, named{name: name})
	}
	for at := range d.records() {
		name, _ := d.leaves.name(at)
		l = append(l, named{string(name), at})
	}
	slices.SortFunc(l, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return l
}

// child returns the inode of an entry. That of a file of Add is a copy.
func (i *Inode) child(e named) *Inode {
	if e.leaf == 0 {
		return i.entries[e.name]
	}
	file, linked := i.leaves.load(e.leaf)
	switch {
	case linked:
	case file.IsDir():
		file.parent, file.nlink = i, 2
	default:
		file.nlink = 1
	}
	return file
}
