package squashfs

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/codec"
)

const (
	metaBlockSize    = 8192
	metaUncompressed = 0x8000
)

// metaWriter packs a stream of records into metadata blocks of 8 KiB.
type metaWriter struct {
	block codec.Block
	out   pieces // packed blocks
	raw   []byte // the block that is being filled
	tmp   []byte
	index []uint64 // where each block starts in out
}

// pos is the position of the next record: the start of its block among the compressed ones, and its
// offset in the data of the block.
func (m *metaWriter) pos() (start uint64, offset int) {
	return uint64(m.out.size), len(m.raw)
}

// ref is pos as a reference, which the format uses for inodes and attributes.
func (m *metaWriter) ref() uint64 {
	start, offset := m.pos()
	return start<<16 | uint64(offset)
}

func (m *metaWriter) append(p []byte) {
	for len(p) > 0 {
		n := min(metaBlockSize-len(m.raw), len(p))
		m.raw = append(m.raw, p[:n]...)
		p = p[n:]
		if len(m.raw) == metaBlockSize {
			m.flush()
		}
	}
}

func (m *metaWriter) flush() {
	if len(m.raw) == 0 {
		return
	}
	m.index = append(m.index, uint64(m.out.size))
	packed, smaller := m.block.Compress(m.tmp, m.raw)
	m.tmp = packed
	header := uint16(len(packed))
	if !smaller {
		packed, header = m.raw, uint16(len(m.raw))|metaUncompressed
	}
	m.out.add(binary.LittleEndian.AppendUint16(nil, header))
	m.out.add(packed)
	m.raw = m.raw[:0]
}

// pieces is a buffer that grows without being copied: the tables of 100,000 layers have 25 MB.
type pieces struct {
	list [][]byte
	size int
}

const pieceSize = 64 << 10

func (p *pieces) add(b []byte) {
	p.size += len(b)
	for len(b) > 0 {
		last := len(p.list) - 1
		if last < 0 || len(p.list[last]) == cap(p.list[last]) {
			p.list = append(p.list, make([]byte, 0, pieceSize))
			last++
		}
		n := min(len(b), cap(p.list[last])-len(p.list[last]))
		p.list[last], b = append(p.list[last], b[:n]...), b[n:]
	}
}

// take appends what another buffer has, which does not change any more.
func (p *pieces) take(other *pieces) {
	for _, piece := range other.list {
		p.list = append(p.list, slices.Clip(piece))
	}
	p.size += other.size
}

// WriteTo writes all.
func (p *pieces) WriteTo(w io.Writer) (n int64, err error) {
	for _, piece := range p.list {
		m, err := w.Write(piece)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, nil
}

// idTable numbers owners and groups.
type idTable struct {
	list  []uint32
	index map[uint32]uint16
}

func (t *idTable) number(id uint32) (uint16, error) {
	if n, ok := t.index[id]; ok {
		return n, nil
	}
	if len(t.list) == 1<<16-1 {
		return 0, ErrTooManyIDs
	}
	if t.index == nil {
		t.index = map[uint32]uint16{}
	}
	n := uint16(len(t.list))
	t.list, t.index[id] = append(t.list, id), n
	return n, nil
}

const noXattrs = ^uint32(0)

// xattrPrefixes are the classes of the format, by their numbers.
var xattrPrefixes = []string{"user.", "trusted.", "security."}

// SupportsXattr reports whether an image can have an extended attribute of this name: the format
// has user.*, trusted.* and security.* only.
func SupportsXattr(name string) bool {
	return slices.ContainsFunc(xattrPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// xattrTable holds each set of extended attributes once.
type xattrTable struct {
	pairs metaWriter
	list  []xattrSet
	index map[string]uint32
}

// xattrSet is an entry of the attribute table.
type xattrSet struct {
	Ref         uint64
	Count, Size uint32
}

func (t *xattrTable) number(attrs map[string]string) uint32 {
	var pairs []byte
	var count uint32
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		for class, prefix := range xattrPrefixes {
			if short, ok := strings.CutPrefix(name, prefix); ok {
				pairs = binary.LittleEndian.AppendUint16(pairs, uint16(class))
				pairs = binary.LittleEndian.AppendUint16(pairs, uint16(len(short)))
				pairs = append(pairs, short...)
				pairs = binary.LittleEndian.AppendUint32(pairs, uint32(len(attrs[name])))
				pairs = append(pairs, attrs[name]...)
				count++
			}
		}
	}
	if count == 0 {
		return noXattrs
	}
	if n, ok := t.index[string(pairs)]; ok {
		return n
	}
	if t.index == nil {
		t.index = map[string]uint32{}
	}
	n := uint32(len(t.list))
	t.list = append(t.list, xattrSet{Ref: t.pairs.ref(), Count: count, Size: uint32(len(pairs))})
	t.pairs.append(pairs)
	t.index[string(pairs)] = n
	return n
}

// end is the part of an image after the data blocks.
type end struct {
	block codec.Block
	buf   pieces
	pos   uint64
}

func (e *end) append(p []byte) uint64 {
	start := e.pos
	e.buf.add(p)
	e.pos += uint64(len(p))
	return start
}

// blocks appends compressed metadata and returns its start.
func (e *end) blocks(m *metaWriter) uint64 {
	m.flush()
	start := e.pos
	e.buf.take(&m.out)
	e.pos += uint64(m.out.size)
	return start
}

// lookup appends a table of fixed-size entries, head, and the index of the table's blocks. It
// returns the start of the head, which the superblock records as the start of the table.
func (e *end) lookup(block codec.Block, head []byte, entries any) uint64 {
	m := metaWriter{block: block}
	m.append(encode(entries))
	start := e.blocks(&m)
	for _, at := range m.index {
		head = binary.LittleEndian.AppendUint64(head, start+at)
	}
	return e.append(head)
}

// tables appends all tables, in the order that the kernel checks.
func (e *end) tables(w *Writer, sb *superblock) {
	sb.InodeTable = e.blocks(&w.inodes)
	sb.DirTable = e.blocks(&w.dirs)
	sb.FragmentTable, sb.XattrTable = noTable, noTable
	if len(w.fragments) > 0 {
		// Who reads a short file reads one entry. To decompress the block that has it would take a sixth of that time.
		sb.FragmentTable = e.lookup(codec.Stored{}, nil, w.fragments)
	} else {
		sb.Flags |= flagNoFragments
	}
	sb.Exports = e.lookup(e.block, nil, w.exports)
	sb.IDTable = e.lookup(e.block, nil, w.ids.list)
	if len(w.xattrs.list) == 0 {
		sb.Flags |= flagNoXattrs
		return
	}
	pairs := e.blocks(&w.xattrs.pairs)
	head := binary.LittleEndian.AppendUint64(nil, pairs)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(w.xattrs.list)))
	sb.XattrTable = e.lookup(e.block, head, w.xattrs.list)
}
