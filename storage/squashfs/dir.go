package squashfs

import (
	"encoding/binary"
	"math"
)

const (
	dirHeaderSize = 12
	dirRunLength  = 256 // entries that one header may have
	dirExtraSize  = 3   // a listing's size counts "." and ".." as 3 bytes: fs/squashfs/dir.c
)

// dirBody writes the listing of i and returns the directory's part of the record.
func (w *Writer) dirBody(i *Inode, names []string, xattr uint32) (b []byte, long bool) {
	le := binary.LittleEndian
	start, offset := w.dirs.pos()
	size, index, indexed := w.listing(i, names)
	size += dirExtraSize
	parent := uint32(len(w.exports)) + 1 // of the root, as mksquashfs numbers it
	if i.parent != nil {
		w.assign(i.parent)
		parent = i.parent.number
	}
	if long = size > math.MaxUint16 || xattr != noXattrs || indexed > 0; !long {
		b = le.AppendUint32(b, uint32(start))
		b = le.AppendUint32(b, i.nlink)
		b = le.AppendUint16(b, uint16(size))
		b = le.AppendUint16(b, uint16(offset))
		return le.AppendUint32(b, parent), false
	}
	b = le.AppendUint32(b, i.nlink)
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, uint32(start))
	b = le.AppendUint32(b, parent)
	b = le.AppendUint16(b, uint16(indexed))
	b = le.AppendUint16(b, uint16(offset))
	b = le.AppendUint32(b, xattr)
	return append(b, index...), true
}

// listing writes the entries of i in runs. Entries of a run share a block of the inode table, and
// start in one block of the listing. The index has the first run that starts in each further block,
// so that a lookup in a large directory decompresses one block.
func (w *Writer) listing(i *Inode, names []string) (size int, index []byte, indexed int) {
	le := binary.LittleEndian
	block, _ := w.dirs.pos()
	for len(names) > 0 {
		start, offset := w.dirs.pos()
		run := i.run(names, offset)
		first := i.entries[names[0]]
		if start != block {
			block = start
			index = le.AppendUint32(index, uint32(size))
			index = le.AppendUint32(index, uint32(start))
			index = le.AppendUint32(index, uint32(len(names[0])-1))
			index = append(index, names[0]...)
			indexed++
		}
		b := le.AppendUint32(nil, uint32(run-1))
		b = le.AppendUint32(b, uint32(first.ref>>16))
		b = le.AppendUint32(b, first.number)
		for _, name := range names[:run] {
			child := i.entries[name]
			b = le.AppendUint16(b, uint16(child.ref))
			b = le.AppendUint16(b, uint16(int16(int64(child.number)-int64(first.number))))
			b = le.AppendUint16(b, child.basicType())
			b = le.AppendUint16(b, uint16(len(name)-1))
			b = append(b, name...)
		}
		w.dirs.append(b)
		size += len(b)
		names = names[run:]
	}
	return size, index, indexed
}

// run returns how many of names one header can have, if it is at offset in its block.
func (i *Inode) run(names []string, offset int) int {
	first := i.entries[names[0]]
	offset += dirHeaderSize
	n := 0
	for n < len(names) && n < dirRunLength {
		child := i.entries[names[n]]
		delta := int64(child.number) - int64(first.number)
		if n > 0 && (offset >= metaBlockSize || child.ref>>16 != first.ref>>16 ||
			delta > math.MaxInt16 || delta < math.MinInt16) {
			break
		}
		offset += 8 + len(names[n])
		n++
	}
	return n
}
