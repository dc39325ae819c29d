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
func (w *Writer) dirBody(i *Inode, l []named, places []place, xattr uint32) (b []byte, long bool) {
	le := binary.LittleEndian
	start, offset := w.dirs.pos()
	size, index, indexed := w.listing(l, places)
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

// listing writes the entries of a directory in runs. Entries of a run share a block of the inode table, and
// start in one block of the listing. The index has the first run that starts in each further block,
// so that a lookup in a large directory decompresses one block.
func (w *Writer) listing(l []named, places []place) (size int, index []byte, indexed int) {
	le := binary.LittleEndian
	block, _ := w.dirs.pos()
	for len(l) > 0 {
		start, offset := w.dirs.pos()
		run, first := runLength(l, places, offset), places[0]
		if start != block {
			block = start
			index = le.AppendUint32(index, uint32(size))
			index = le.AppendUint32(index, uint32(start))
			index = le.AppendUint32(index, uint32(len(l[0].name)-1))
			index = append(index, l[0].name...)
			indexed++
		}
		b := le.AppendUint32(nil, uint32(run-1))
		b = le.AppendUint32(b, uint32(first.ref>>16))
		b = le.AppendUint32(b, first.number)
		for n, at := range places[:run] {
			b = le.AppendUint16(b, uint16(at.ref))
			b = le.AppendUint16(b, uint16(int16(int64(at.number)-int64(first.number))))
			b = le.AppendUint16(b, at.kind)
			b = le.AppendUint16(b, uint16(len(l[n].name)-1))
			b = append(b, l[n].name...)
		}
		w.dirs.append(b)
		size += len(b)
		l, places = l[run:], places[run:]
	}
	return size, index, indexed
}

// runLength returns how many of the entries one header can have, if it is at offset in its block.
func runLength(l []named, places []place, offset int) int {
	first := places[0]
	offset += dirHeaderSize
	n := 0
	for n < len(places) && n < dirRunLength {
		at := places[n]
		delta := int64(at.number) - int64(first.number)
		if n > 0 && (offset >= metaBlockSize || at.ref>>16 != first.ref>>16 ||
			delta > math.MaxInt16 || delta < math.MinInt16) {
			break
		}
		offset += 8 + len(l[n].name)
		n++
	}
	return n
}
