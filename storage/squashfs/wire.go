package squashfs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
)

// The index of a pack has its note, extents, fragments, and the tree. Numbers are varints, strings
// follow their length. An inode with several names is written at the first one; the others have its number.

// encoder writes an index as a stream, since the index of a layer of a million files has 50 MB.
type encoder struct {
	w      io.Writer
	err    error // the first failure of w
	b      []byte
	inodes uint32 // that have several names
}

const encodedAhead = 32 << 10 // bytes

func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) flush(least int) {
	if e.err == nil && len(e.b) >= least {
		_, e.err = e.w.Write(e.b)
		e.b = e.b[:0]
	}
}

// encodeIndex also drops the extents that no file below root uses.
func encodeIndex(w io.Writer, p *Packer, root *Inode, note []byte) error {
	used := map[uint64]bool{}
	countNames(root, func(c *Content) { used[c.start] = true })
	for _, f := range p.fragments {
		used[f.Start] = true
	}
	p.extents = slices.DeleteFunc(p.extents, func(x extent) bool { return !used[x.start] })
	e := encoder{w: w}
	e.string(string(note))
	e.uint(uint64(len(p.extents)))
	end := uint64(packHead)
	for _, x := range p.extents {
		e.uint(x.start - end)
		e.uint(x.size)
		e.string(string(x.sum[:]))
		end = x.start + x.size
	}
	e.uint(uint64(len(p.fragments)))
	for _, f := range p.fragments {
		e.uint(f.Start)
		e.uint(uint64(f.Word))
	}
	e.inode(root)
	e.flush(0)
	return e.err
}

// inode writes 0 and an inode that has one name; 1 and one that has several; or the number of one that was
// written before, from 2.
func (e *encoder) inode(i *Inode) {
	switch {
	case i.IsDir() || i.nlink == 1:
		e.uint(0)
	case i.number > 0:
		e.uint(uint64(i.number) + 1)
		return
	default:
		e.uint(1)
		e.inodes++
		i.number = e.inodes
	}
	e.attributes(i)
	if !i.IsDir() {
		return
	}
	l := i.list()
	e.uint(uint64(len(l)))
	for _, entry := range l {
		e.flush(encodedAhead)
		e.string(entry.name)
		e.inode(i.child(entry))
	}
	if e.err == nil {
		e.err = i.Err()
	}
}

// attributes writes all of an inode but its entries.
func (e *encoder) attributes(i *Inode) {
	e.uint(uint64(i.Mode))
	e.uint(uint64(i.UID))
	e.uint(uint64(i.GID))
	e.b = binary.AppendVarint(e.b, i.ModTime)
	e.uint(uint64(len(i.Xattrs)))
	for _, name := range slices.Sorted(maps.Keys(i.Xattrs)) {
		e.string(name)
		e.string(i.Xattrs[name])
	}
	switch i.basicType() {
	case typeFile:
		e.content(i.Content)
	case typeSymlink:
		e.string(i.Target)
	case typeChar, typeBlock:
		e.uint(uint64(i.Major))
		e.uint(uint64(i.Minor))
	}
}

func (e *encoder) content(c *Content) {
	if c == nil || c.size == 0 {
		e.uint(0)
		return
	}
	e.uint(uint64(c.size))
	e.uint(uint64(c.fragment + 1))
	if c.fragment != noFragment {
		e.uint(uint64(c.offset))
		return
	}
	e.uint(c.start)
	e.uint(c.sparse)
	e.uint(uint64(len(c.blocks)))
	for _, word := range c.blocks {
		e.uint(uint64(word))
	}
}

var errIndex = errors.New("the index is malformed")

// maxString bounds a link target, an attribute or a note, in bytes.
const maxString = 1 << 24

// decoder reads what an encoder wrote. After the first error it returns zeros.
type decoder struct {
	r interface {
		io.Reader
		io.ByteReader
	}
	err    error
	leaves *leaves
	inodes []*Inode // that have several names
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *decoder) uint() uint64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(d.r)
	if err != nil {
		d.fail(err)
		return 0
	}
	return v
}

func (d *decoder) int() int64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadVarint(d.r)
	if err != nil {
		d.fail(err)
		return 0
	}
	return v
}

func (d *decoder) string() string {
	n := d.uint()
	if n > maxString {
		d.fail(errIndex)
	}
	if n == 0 || d.err != nil {
		return ""
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		d.fail(err)
		return ""
	}
	return string(b)
}

// times reads a number, and calls f that many times.
func (d *decoder) times(f func()) {
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		f()
	}
}

func decodeIndex(r io.Reader, tmp string) (*Pack, error) {
	d := decoder{r: bufio.NewReader(r), leaves: newLeaves(tmp)}
	d.leaves.fixed = true
	p := &Pack{packData: &packData{}}
	p.Note = []byte(d.string())
	at := uint64(packHead)
	d.times(func() {
		x := extent{start: at + d.uint(), size: d.uint()}
		copy(x.sum[:], d.string())
		p.extents = append(p.extents, x)
		at = x.start + x.size
	})
	d.times(func() {
		p.fragments = append(p.fragments, fragment{Start: d.uint(), Word: uint32(d.uint())})
	})
	if d.uint() > 0 {
		d.fail(errIndex)
	}
	p.Root = d.inode(p.packData)
	if _, err := d.r.ReadByte(); d.err == nil && !errors.Is(err, io.EOF) {
		d.fail(errIndex)
	}
	return p, d.err
}

// inode reads an inode that was not written before, and all below it.
func (d *decoder) inode(in *packData) *Inode {
	i := &Inode{}
	d.attributes(i, in)
	if !i.IsDir() {
		return i
	}
	i.leaves = d.leaves
	last := ""
	d.times(func() {
		name := d.string()
		if name <= last {
			d.fail(errIndex)
		}
		last = name
		switch n := d.uint(); {
		case d.err != nil:
		case n > uint64(len(d.inodes))+1:
			d.fail(errIndex)
		case n > 1:
			// Not Link: the names of an index are different, and to look for an earlier one would take the length
			// of the listing, for each link.
			if !i.appendLink(name, d.inodes[n-2]) {
				i.put(name, d.inodes[n-2])
			}
		default:
			child := d.inode(in)
			if n == 1 {
				d.inodes = append(d.inodes, child)
			}
			if n == 1 && child.IsDir() {
				d.fail(errIndex)
			}
			if n == 1 || !i.append(name, child) {
				i.put(name, child)
			}
		}
	})
	return i
}

func (d *decoder) attributes(i *Inode, in *packData) {
	*i = Inode{Mode: uint32(d.uint()), UID: uint32(d.uint()), GID: uint32(d.uint()), ModTime: d.int()}
	d.times(func() {
		if i.Xattrs == nil {
			i.Xattrs = map[string]string{}
		}
		name := d.string()
		i.Xattrs[name] = d.string()
	})
	switch i.basicType() {
	case typeFile:
		i.Content = d.content(in)
	case typeSymlink:
		i.Target = d.string()
	case typeChar, typeBlock:
		i.Major, i.Minor = uint32(d.uint()), uint32(d.uint())
	}
}

func (d *decoder) content(in *packData) *Content {
	c := &Content{size: int64(d.uint()), in: in}
	if c.size == 0 {
		return nil
	}
	if c.fragment = uint32(d.uint()) - 1; c.fragment != noFragment {
		c.offset = uint32(d.uint())
		return c
	}
	c.start, c.sparse = d.uint(), d.uint()
	d.times(func() { c.blocks = append(c.blocks, uint32(d.uint())) })
	return c
}
