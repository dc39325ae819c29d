package squashfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// The index of a pack: its note, extents, fragments, contents, and the tree. Numbers
// are varints, strings have their length before them. Contents and hard links
// stand once and are referred to by number.

type encoder struct {
	b        []byte
	contents map[*Content]int
	inodes   map[*Inode]int
}

func (e *encoder) uint(n uint64)   { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.b = append(e.b, s...) }

func encodeIndex(p *Packer, root *Inode, note []byte) []byte {
	e := encoder{contents: map[*Content]int{nil: 0}, inodes: map[*Inode]int{}}
	e.string(string(note))
	e.uint(uint64(len(p.extents)))
	for _, x := range p.extents {
		e.uint(x.size)
		e.b = append(e.b, x.sum[:]...)
		e.b = binary.LittleEndian.AppendUint32(e.b, x.check)
	}
	e.uint(uint64(len(p.fragments)))
	for _, f := range p.fragments {
		e.uint(f.Start)
		e.uint(uint64(f.Word))
	}
	contents := contentsOf(root)
	e.uint(uint64(len(contents)))
	for n, c := range contents {
		e.contents[c] = n + 1
		e.content(c)
	}
	e.inode(root)
	return e.b
}

// contentsOf lists the contents of a tree, each once, in the order of names.
func contentsOf(root *Inode) (all []*Content) {
	seen := map[*Content]bool{nil: true}
	var walk func(*Inode)
	walk = func(i *Inode) {
		if !seen[i.Content] {
			seen[i.Content] = true
			all = append(all, i.Content)
		}
		for _, name := range slices.Sorted(maps.Keys(i.entries)) {
			walk(i.entries[name])
		}
	}
	walk(root)
	return all
}

func (e *encoder) content(c *Content) {
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

func (e *encoder) inode(i *Inode) {
	n, seen := e.inodes[i]
	if e.uint(uint64(n)); seen { // 0: a new one
		return
	}
	e.inodes[i] = len(e.inodes) + 1
	e.uint(uint64(i.Mode))
	e.uint(uint64(i.UID))
	e.uint(uint64(i.GID))
	e.b = binary.AppendVarint(e.b, i.ModTime)
	e.uint(uint64(e.contents[i.Content]))
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

var errIndex = errors.New("its index cannot be read")

// decoder reads what an encoder wrote. After the first fault it reads zeros.
type decoder struct {
	b      []byte
	failed bool
	pack   *Pack
	inodes []*Inode
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.failed, d.b = true, nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) varint(n int) {
	if n <= 0 {
		d.failed, d.b = true, nil
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.varint(n)
	return v
}

// count is a number of things that take a byte at least.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.failed, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) string() string { return string(d.take(d.uint())) }

func decodeIndex(index []byte) (*Pack, error) {
	d := decoder{b: index, pack: &Pack{contents: []*Content{nil}}, inodes: []*Inode{nil}}
	p := d.pack
	p.Note = bytes.Clone(d.take(d.uint()))
	at := uint64(packHead)
	for range d.count() {
		x := extent{start: at, size: d.uint()}
		copy(x.sum[:], d.take(uint64(len(x.sum))))
		if check := d.take(4); check != nil {
			x.check = binary.LittleEndian.Uint32(check)
		}
		p.extents = append(p.extents, x)
		at += x.size
	}
	for range d.count() {
		p.fragments = append(p.fragments, fragment{Start: d.uint(), Word: uint32(d.uint())})
	}
	for range d.count() {
		p.contents = append(p.contents, d.content())
	}
	p.Root = d.inode()
	p.contents = p.contents[1:]
	if d.failed || len(d.b) > 0 {
		return nil, errIndex
	}
	return p, nil
}

func (d *decoder) content() *Content {
	c := &Content{size: int64(d.uint()), fragment: uint32(d.uint()) - 1, offset: uint32(d.uint()), start: d.uint(), sparse: d.uint()}
	if n := d.count(); n > 0 {
		c.blocks = make([]uint32, n)
	}
	for n := range c.blocks {
		c.blocks[n] = uint32(d.uint())
	}
	return c
}

func (d *decoder) inode() *Inode {
	if n := d.uint(); n >= uint64(len(d.inodes)) {
		d.failed, d.b = true, nil
		return &Inode{}
	} else if n > 0 {
		return d.inodes[n]
	}
	i := &Inode{Mode: uint32(d.uint()), UID: uint32(d.uint()), GID: uint32(d.uint())}
	d.inodes = append(d.inodes, i)
	modTime, n := binary.Varint(d.b)
	d.varint(n)
	i.ModTime = modTime
	if c := d.uint(); c < uint64(len(d.pack.contents)) {
		i.Content = d.pack.contents[c]
	}
	i.Target, i.Major, i.Minor = d.string(), uint32(d.uint()), uint32(d.uint())
	if n := d.count(); n > 0 {
		i.Xattrs = make(map[string]string, n)
		for range n {
			name := d.string()
			i.Xattrs[name] = d.string()
		}
	}
	n = d.count()
	if i.IsDir() {
		i.entries = make(map[string]*Inode, n)
	}
	for range n {
		name := d.string()
		if child := d.inode(); !d.failed && i.IsDir() {
			i.Set(name, child)
		}
	}
	return i
}
