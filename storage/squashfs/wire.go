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
// follow their length. An inode or a content that occurs several times is written at its first
// occurrence; the others have its number.

// encoder writes an index as a stream, since the index of a layer of a million files has 60 MB.
type encoder struct {
	w                *bufio.Writer // keeps its first failure
	contents, inodes uint32
}

func (e *encoder) uint(n uint64) {
	_, _ = e.w.Write(binary.AppendUvarint(e.w.AvailableBuffer(), n))
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	_, _ = e.w.WriteString(s)
}

func encodeIndex(w io.Writer, p *Packer, root *Inode, note []byte) error {
	e := encoder{w: bufio.NewWriter(w)}
	e.string(string(note))
	e.uint(uint64(len(p.extents)))
	for _, x := range p.extents {
		e.uint(x.size)
		e.string(string(x.sum[:]))
	}
	e.uint(uint64(len(p.fragments)))
	for _, f := range p.fragments {
		e.uint(f.Start)
		e.uint(uint64(f.Word))
	}
	e.inode(root)
	return e.w.Flush()
}

func (e *encoder) inode(i *Inode) {
	e.uint(uint64(i.number)) // 0: a new one
	if i.number > 0 {
		return
	}
	e.inodes++
	i.number = e.inodes
	e.uint(uint64(i.Mode))
	e.uint(uint64(i.UID))
	e.uint(uint64(i.GID))
	_, _ = e.w.Write(binary.AppendVarint(e.w.AvailableBuffer(), i.ModTime))
	e.content(i.Content)
	e.string(i.Target)
	e.uint(uint64(i.Major))
	e.uint(uint64(i.Minor))
	e.uint(uint64(len(i.Xattrs)))
	for _, name := range slices.Sorted(maps.Keys(i.Xattrs)) {
		e.string(name)
		e.string(i.Xattrs[name])
	}
	e.uint(uint64(len(i.entries)))
	for _, name := range slices.Sorted(maps.Keys(i.entries)) {
		e.string(name)
		e.inode(i.entries[name])
	}
}

func (e *encoder) content(c *Content) {
	if c == nil {
		e.uint(0)
		return
	}
	if c.number > 0 {
		e.uint(uint64(c.number))
		return
	}
	e.contents++
	c.number = e.contents
	e.uint(uint64(c.number)) // greater than all before: a new one
	e.uint(uint64(c.size))
	e.uint(uint64(c.fragment + 1))
	e.uint(uint64(c.offset))
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
	r      *bufio.Reader
	err    error
	pack   *Pack
	inodes []*Inode
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

func decodeIndex(r io.Reader) (*Pack, error) {
	d := decoder{r: bufio.NewReader(r), pack: &Pack{}}
	p := d.pack
	p.Note = []byte(d.string())
	at := uint64(packHead)
	d.times(func() {
		x := extent{start: at, size: d.uint()}
		copy(x.sum[:], d.string())
		p.extents = append(p.extents, x)
		at += x.size
	})
	d.times(func() {
		p.fragments = append(p.fragments, fragment{Start: d.uint(), Word: uint32(d.uint())})
	})
	p.Root = d.inode()
	if _, err := d.r.ReadByte(); d.err == nil && !errors.Is(err, io.EOF) {
		d.fail(errIndex)
	}
	return p, d.err
}

func (d *decoder) inode() *Inode {
	if n := d.uint(); n > uint64(len(d.inodes)) {
		d.fail(errIndex)
		return &Inode{}
	} else if n > 0 {
		return d.inodes[n-1]
	}
	i := &Inode{Mode: uint32(d.uint()), UID: uint32(d.uint()), GID: uint32(d.uint()), ModTime: d.int()}
	d.inodes = append(d.inodes, i)
	i.Content = d.content()
	i.Target, i.Major, i.Minor = d.string(), uint32(d.uint()), uint32(d.uint())
	d.times(func() {
		if i.Xattrs == nil {
			i.Xattrs = map[string]string{}
		}
		name := d.string()
		i.Xattrs[name] = d.string()
	})
	if i.IsDir() {
		i.entries = map[string]*Inode{}
	}
	d.times(func() {
		name := d.string()
		if child := d.inode(); d.err == nil && i.IsDir() {
			i.Set(name, child)
		}
	})
	return i
}

func (d *decoder) content() *Content {
	contents := d.pack.contents
	switch n := d.uint(); {
	case n == 0:
		return nil
	case n <= uint64(len(contents)):
		return contents[n-1]
	case n > uint64(len(contents))+1:
		d.fail(errIndex)
		return nil
	}
	c := &Content{
		size: int64(d.uint()), fragment: uint32(d.uint()) - 1, offset: uint32(d.uint()), start: d.uint(), sparse: d.uint(),
	}
	d.times(func() { c.blocks = append(c.blocks, uint32(d.uint())) })
	d.pack.contents = append(contents, c)
	return c
}
