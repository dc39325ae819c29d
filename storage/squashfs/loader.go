package squashfs

import "syscall"

const (
	// maxDepth bounds nested directories. A path of 4096 bytes (PATH_MAX) has half as many.
	maxDepth = 4096
	// maxTreeXattrs bounds the different sets of attributes of a tree, in bytes.
	maxTreeXattrs = 64 << 20
)

// loader reads a tree of an image into memory. In a valid image, records and listings do not overlap.
// So the loader reads no more of them than the tables can hold, and a malicious image cannot exhaust
// the memory.
type loader struct {
	r        *Reader
	contents []*Content        // of the files, with their positions in the image
	links    map[uint64]*Inode // with several names, by their references
	sets     map[uint32]map[string]string

	inodes, listings, xattrs int64 // bytes that may still be read
}

func newLoader(r *Reader) *loader {
	return &loader{
		r: r, links: map[uint64]*Inode{}, sets: map[uint32]map[string]string{},
		inodes: int64(r.sb.DirTable-r.sb.InodeTable) * metaRatio, listings: int64(r.sb.BytesUsed-r.sb.DirTable) * metaRatio,
		xattrs: maxTreeXattrs,
	}
}

// spend subtracts from one of the three.
func spend(left *int64, bytes int64) error {
	if *left -= bytes; *left < 0 {
		return damaged("its records overlap")
	}
	return nil
}

// load returns the tree below an inode.
func (l *loader) load(n *node, depth int) (*Inode, error) {
	if i := l.links[n.ref]; i != nil {
		return i, nil
	}
	if depth > maxDepth {
		return nil, damaged("more than %d nested directories", maxDepth)
	}
	if err := spend(&l.inodes, n.blocks.n); err != nil {
		return nil, err
	}
	attrs, err := l.attributes(n.xattr)
	if err != nil {
		return nil, err
	}
	i := &Inode{
		Mode: n.mode(), UID: l.r.ids[n.UID], GID: l.r.ids[n.GID], ModTime: int64(n.ModTime), Xattrs: attrs, Target: n.target,
	}
	i.Major, i.Minor = n.numbers()
	switch i.kind() {
	case syscall.S_IFDIR:
		return i, l.fill(i, n, depth)
	case syscall.S_IFREG:
		if i.Content, err = l.content(n); err != nil {
			return nil, err
		}
	}
	if n.nlink > 1 {
		l.links[n.ref] = i
	}
	return i, nil
}

func (l *loader) fill(dir *Inode, n *node, depth int) error {
	if err := spend(&l.listings, int64(n.size)); err != nil {
		return err
	}
	list, err := l.r.list(n, 0, 0)
	if err != nil {
		return err
	}
	for _, e := range list {
		child, err := l.r.child(e)
		if err != nil {
			return err
		}
		i, err := l.load(child, depth+1)
		if err != nil {
			return err
		}
		dir.Set(e.name, i)
	}
	return nil
}

// attributes returns a set of attributes, one map for all inodes that have it.
func (l *loader) attributes(number uint32) (map[string]string, error) {
	if attrs, ok := l.sets[number]; ok {
		return attrs, nil
	}
	attrs, size, err := l.r.xattrSet(number)
	if err != nil {
		return nil, err
	}
	l.sets[number] = attrs
	return attrs, spend(&l.xattrs, int64(size))
}

// content returns the content of a file, with its position in the image.
func (l *loader) content(n *node) (*Content, error) {
	if n.size == 0 {
		return nil, nil
	}
	blockSize := uint64(l.r.sb.BlockSize)
	c := &Content{size: int64(n.size), fragment: n.fragment, offset: n.offset, start: n.start, sparse: n.sparse}
	count := n.blockCount(blockSize)
	if count > uint64(l.inodes)/4 {
		return nil, damaged("inode %d has %d blocks", n.Number, count)
	}
	if err := spend(&l.inodes, int64(count)*4); err != nil {
		return nil, err
	}
	c.blocks = make([]uint32, count)
	if err := n.blocks.decode(c.blocks); err != nil {
		return nil, err
	}
	for _, word := range c.blocks {
		if word&^uncompressedBlock > l.r.sb.BlockSize {
			return nil, damaged("inode %d has a block of %d bytes", n.Number, word&^uncompressedBlock)
		}
	}
	if c.fragment != noFragment && uint64(c.offset)+n.size%blockSize > blockSize {
		return nil, damaged("inode %d ends after its fragment block", n.Number)
	}
	l.contents = append(l.contents, c)
	return c, nil
}

// packedSize returns the size of the compressed blocks, in bytes.
func (c *Content) packedSize() (size uint64) {
	for _, word := range c.blocks {
		size += uint64(word &^ uncompressedBlock)
	}
	return size
}
