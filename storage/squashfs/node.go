package squashfs

import (
	"encoding/binary"
	"math"
	"syscall"
)

// node is an inode of an image, without its entries, its attributes and the sizes of its blocks.
type node struct {
	inodeHead
	ref  uint64
	kind uint16 // the basic kind

	nlink uint32
	xattr uint32
	// Of a regular file. Of a directory, start, size and offset are those of its listing.
	start, size, sparse uint64
	fragment, offset    uint32
	indexed             int // entries of a directory's index
	target              string
	device              uint32
	blocks              cursor // at the size words, or at a directory's index
}

// The parts of an inode's record. Long parts are those of extended inodes.
type (
	inodeHead struct {
		Kind, Perm, UID, GID uint16
		ModTime, Number      uint32
	}
	dirPart struct {
		Start, Links uint32
		Size, Offset uint16
		Parent       uint32
	}
	longDirPart struct {
		Links, Size, Start, Parent uint32
		Indexed, Offset            uint16
		Xattr                      uint32
	}
	filePart     struct{ Start, Fragment, Offset, Size uint32 }
	longFilePart struct {
		Start, Size, Sparse            uint64
		Links, Fragment, Offset, Xattr uint32
	}
)

// node reads the inode at a reference.
func (r *Reader) node(ref uint64) (*node, error) {
	n := &node{ref: ref, nlink: 1, xattr: noXattrs, fragment: noFragment}
	c := r.cursorAt(r.sb.InodeTable, ref)
	if err := c.decode(&n.inodeHead); err != nil {
		return nil, err
	}
	long := n.Kind > extended
	if n.kind = n.Kind; long {
		n.kind -= extended
	}
	if n.kind < typeDir || n.kind > typeSocket || int(n.UID) >= len(r.ids) || int(n.GID) >= len(r.ids) {
		return nil, damaged("inode %d is of kind %d, owner %d and group %d", n.Number, n.Kind, n.UID, n.GID)
	}
	var err error
	switch n.kind {
	case typeDir:
		err = n.readDir(c, long)
	case typeFile:
		err = n.readFile(c, long)
	default:
		err = n.readOther(c, long)
	}
	n.blocks = *c
	return n, err
}

func (n *node) readDir(c *cursor, long bool) error {
	if long {
		var p longDirPart
		err := c.decode(&p)
		n.nlink, n.size, n.start, n.offset, n.xattr = p.Links, uint64(p.Size), uint64(p.Start), uint32(p.Offset), p.Xattr
		n.indexed = int(p.Indexed)
		return err
	}
	var p dirPart
	err := c.decode(&p)
	n.nlink, n.size, n.start, n.offset = p.Links, uint64(p.Size), uint64(p.Start), uint32(p.Offset)
	return err
}

func (n *node) readFile(c *cursor, long bool) error {
	if !long {
		var p filePart
		err := c.decode(&p)
		n.start, n.size, n.fragment, n.offset = uint64(p.Start), uint64(p.Size), p.Fragment, p.Offset
		return err
	}
	var p longFilePart
	if err := c.decode(&p); err != nil {
		return err
	}
	n.start, n.size, n.sparse, n.nlink, n.fragment, n.offset, n.xattr = p.Start, p.Size, p.Sparse, p.Links, p.Fragment,
		p.Offset, p.Xattr
	if n.size > math.MaxInt64 {
		return damaged("inode %d has %d bytes", n.Number, n.size)
	}
	return nil
}

func (n *node) readOther(c *cursor, long bool) error {
	if err := c.decode(&n.nlink); err != nil {
		return err
	}
	switch n.kind {
	case typeSymlink:
		var size uint32
		if err := c.decode(&size); err != nil {
			return err
		}
		if size > maxTarget {
			return damaged("inode %d is a link to %d bytes", n.Number, size)
		}
		target := make([]byte, size)
		if err := c.read(target); err != nil {
			return err
		}
		n.target = string(target)
	case typeBlock, typeChar:
		if err := c.decode(&n.device); err != nil {
			return err
		}
	}
	if !long {
		return nil
	}
	return c.decode(&n.xattr)
}

const maxTarget = 4096 // PATH_MAX, and the page that the kernel reads

// mode returns st_mode of stat(2).
func (n *node) mode() uint32 {
	kinds := [...]uint32{
		typeDir: syscall.S_IFDIR, typeFile: syscall.S_IFREG, typeSymlink: syscall.S_IFLNK, typeBlock: syscall.S_IFBLK,
		typeChar: syscall.S_IFCHR, typeFifo: syscall.S_IFIFO, typeSocket: syscall.S_IFSOCK,
	}
	return kinds[n.kind] | uint32(n.Perm)&07777
}

// blockCount returns how many size words the file has. The end of a file that has a fragment has no
// block.
func (n *node) blockCount(blockSize uint64) uint64 {
	count := n.size / blockSize
	if n.fragment == noFragment && n.size%blockSize > 0 {
		count++
	}
	return count
}

// fragmentEntry returns the position of a fragment block.
func (r *Reader) fragmentEntry(number uint32) (f fragment, err error) {
	if number >= r.sb.Fragments {
		return f, damaged("fragment block %d of %d", number, r.sb.Fragments)
	}
	c, err := r.lookup(r.sb.FragmentTable, number, binary.Size(f))
	if err != nil {
		return f, err
	}
	return f, c.decode(&f)
}
