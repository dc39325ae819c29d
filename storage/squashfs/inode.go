package squashfs

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// Inode is a file of any kind. Fields that its kind does not have are ignored.
type Inode struct {
	// Mode is st_mode of stat(2): kind and permission bits.
	Mode     uint32
	UID, GID uint32
	// ModTime in seconds since 1970; the format holds 1970 to 2106.
	ModTime int64
	// Xattrs by their full names. Those that SupportsXattr refuses are left out.
	Xattrs map[string]string
	// Content of a regular file, nil for an empty one.
	Content *Content
	// Target of a symbolic link.
	Target string
	// Major and Minor number of a device.
	Major, Minor uint32

	directory

	ref           uint64
	number, nlink uint32 // the number refers to the inode in an index, too
	shared        uint32 // its place in leaves, from 1
	written       bool
}

// NewDir returns an empty directory.
func NewDir(perm, uid, gid uint32, modTime int64) *Inode {
	return &Inode{Mode: syscall.S_IFDIR | perm, UID: uid, GID: gid, ModTime: modTime}
}

// IsDir reports whether i is a directory.
func (i *Inode) IsDir() bool { return i.kind() == syscall.S_IFDIR }

// IsSymlink reports whether i is a symbolic link.
func (i *Inode) IsSymlink() bool { return i.kind() == syscall.S_IFLNK }

func (i *Inode) kind() uint32 { return i.Mode & syscall.S_IFMT }

// WriteTree writes the tree below dir into the tables and frees it; dir itself remains in its
// parent. Inodes of the tree must not have names outside of it. Their contents are those of packs
// that were added.
func (w *Writer) WriteTree(dir *Inode) error {
	countNames(dir, func(*Content) {})
	return w.write(dir)
}

// countNames counts the links of the inodes of a tree, except those of Add, which have one. It calls long with their
// contents.
func countNames(i *Inode, long func(*Content)) {
	if i.nlink++; i.nlink == 1 && i.Content != nil {
		long(i.Content)
	}
	if !i.IsDir() || i.written {
		return
	}
	i.nlink = 2 + uint32(i.dirs)
	for child := range i.Children() {
		if child.IsDir() {
			i.nlink++
		}
		countNames(child, long)
	}
}

func (w *Writer) assign(i *Inode) {
	if i.number == 0 {
		w.exports = append(w.exports, 0)
		i.number = uint32(len(w.exports))
	}
}

// place is where an inode is in the tables.
type place struct {
	ref    uint64
	number uint32
	kind   uint16
}

// write writes the tree below i into the tables, children first: a listing refers to their records. Numbers are in
// the order of the names, parents first.
func (w *Writer) write(i *Inode) error {
	w.assign(i)
	if i.written {
		return nil
	}
	l := i.list()
	places := make([]place, 0, len(l))
	for _, e := range l {
		if e.name == "" || len(e.name) > maxNameLen {
			return fmt.Errorf("a directory entry with a name of %d bytes", len(e.name))
		}
		child := i.child(e)
		if err := w.write(child); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		places = append(places, place{child.ref, child.number, child.basicType()})
	}
	if err := i.Err(); err != nil {
		return err
	}
	record, err := w.encode(i, l, places)
	if err != nil {
		return err
	}
	i.ref, i.written, i.directory = w.inodes.ref(), true, directory{parent: i.parent}
	w.exports[i.number-1] = i.ref
	w.inodes.append(record)
	return nil
}

const maxNameLen = 256 // SQUASHFS_NAME_LEN

// Inode kinds of the format; the extended form of each is 7 higher.
const (
	typeDir = 1 + iota
	typeFile
	typeSymlink
	typeBlock
	typeChar
	typeFifo
	typeSocket
	extended = 7
)

func (i *Inode) basicType() uint16 {
	switch i.kind() {
	case syscall.S_IFDIR:
		return typeDir
	case syscall.S_IFLNK:
		return typeSymlink
	case syscall.S_IFBLK:
		return typeBlock
	case syscall.S_IFCHR:
		return typeChar
	case syscall.S_IFIFO:
		return typeFifo
	case syscall.S_IFSOCK:
		return typeSocket
	}
	return typeFile
}

// encode returns the inode's record. It writes the listing of a directory, to which the record
// refers.
func (w *Writer) encode(i *Inode, l []named, places []place) ([]byte, error) {
	uid, err := w.ids.number(i.UID)
	if err != nil {
		return nil, err
	}
	gid, err := w.ids.number(i.GID)
	if err != nil {
		return nil, err
	}
	xattr := w.xattrs.number(i.Xattrs)
	kind := i.basicType()
	var body []byte
	var long bool
	switch kind {
	case typeDir:
		body, long = w.dirBody(i, l, places, xattr)
	case typeFile:
		body, long = i.fileBody(xattr)
	default:
		body, long = i.otherBody(kind, xattr)
	}
	if long {
		kind += extended
	}
	le := binary.LittleEndian
	head := make([]byte, 0, 16+len(body))
	head = le.AppendUint16(head, kind)
	head = le.AppendUint16(head, uint16(i.Mode&07777))
	head = le.AppendUint16(head, uid)
	head = le.AppendUint16(head, gid)
	head = le.AppendUint32(head, clampTime(i.ModTime))
	head = le.AppendUint32(head, i.number)
	return append(head, body...), nil
}

func (i *Inode) fileBody(xattr uint32) (b []byte, long bool) {
	le := binary.LittleEndian
	c := i.Content
	if c == nil {
		c = &Content{fragment: noFragment}
	}
	start, fragment := c.position()
	long = i.nlink > 1 || xattr != noXattrs || c.sparse > 0 || start > math.MaxUint32 || c.size > math.MaxUint32
	if long {
		b = le.AppendUint64(b, start)
		b = le.AppendUint64(b, uint64(c.size))
		b = le.AppendUint64(b, c.sparse)
		b = le.AppendUint32(b, i.nlink)
		b = le.AppendUint32(b, fragment)
		b = le.AppendUint32(b, c.offset)
		b = le.AppendUint32(b, xattr)
	} else {
		b = le.AppendUint32(b, uint32(start))
		b = le.AppendUint32(b, fragment)
		b = le.AppendUint32(b, c.offset)
		b = le.AppendUint32(b, uint32(c.size))
	}
	for _, word := range c.blocks {
		b = le.AppendUint32(b, word)
	}
	return b, long
}

func (i *Inode) otherBody(kind uint16, xattr uint32) (b []byte, long bool) {
	le := binary.LittleEndian
	b = le.AppendUint32(b, i.nlink)
	switch kind {
	case typeSymlink:
		b = le.AppendUint32(b, uint32(len(i.Target)))
		b = append(b, i.Target...)
	case typeBlock, typeChar:
		// new_encode_dev of the kernel's include/linux/kdev_t.h
		b = le.AppendUint32(b, i.Minor&0xff|i.Major<<8|(i.Minor&^0xff)<<12)
	}
	if long = xattr != noXattrs; long {
		b = le.AppendUint32(b, xattr)
	}
	return b, long
}
