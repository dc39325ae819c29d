package squashfs

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// leaves has the files of a tree that have one name, as bytes: a layer may have a million of them, and an Inode
// with its Content, its name and its place in a map takes 300 bytes. A record is
//
//	4 bytes: the position of the record that the directory got before it
//	4 bytes: the number of the directory, 0 after the record was removed
//	4 bytes: the tag of the content
//	the name, and the inode as it is in an index
//
// After a directory comes where it was written, if it was. Instead of an inode there may be linkMark and the place of
// an inode in shared.
type leaves struct {
	records
	shared []*Inode  // with further names
	dirs   uint32    // directories that have a number
	in     *packData // that has the contents
	table  table     // finds records by directory and name; not if the tree was read from an index
	seed   maphash.Seed
	fixed  bool // if there is no table

	enc encoder
	dec decoder
}

const (
	leafHead = 12
	linkMark = 1 << 32 // no mode
)

func newLeaves(tmp string) *leaves {
	return &leaves{records: records{tmp: tmp}, seed: maphash.MakeSeed()}
}

func (l *leaves) before(at uint32) uint32    { return binary.LittleEndian.Uint32(l.at(at)) }
func (l *leaves) directory(at uint32) uint32 { return binary.LittleEndian.Uint32(l.at(at)[4:]) }
func (l *leaves) tag(at uint32) int32        { return int32(binary.LittleEndian.Uint32(l.at(at)[8:])) }
func (l *leaves) remove(at uint32)           { l.clear(at+4, 4) }

// name returns the name in a record, and what follows it.
func (l *leaves) name(at uint32) (name, rest []byte) {
	b := l.at(at)[leafHead:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) { // the file cannot be read
		return nil, nil
	}
	return b[n:][:size], b[n+int(size):]
}

// add appends a record, and returns its position; 0 if the inode has to stay as it is.
func (l *leaves) add(dir, before uint32, name string, i *Inode) uint32 {
	tag := uint32(0)
	if c := i.Content; c != nil && c.size > 0 {
		// The pipeline may not have written the blocks of a long content yet.
		if c.fragment == noFragment || l.in != nil && l.in != c.in {
			return 0
		}
		l.in, tag = c.in, uint32(c.Tag)
	}
	l.begin(dir, before, tag, name)
	l.enc.attributes(i)
	if i.IsDir() {
		l.enc.uint(i.ref)
		l.enc.uint(uint64(i.number))
	}
	return l.end(dir, name)
}

// addLink appends a record of a further name, and returns its position; 0 if there is no room.
func (l *leaves) addLink(dir, before uint32, name string, i *Inode) uint32 {
	if i.shared == 0 {
		l.shared = append(l.shared, i)
		i.shared = uint32(len(l.shared))
	}
	l.begin(dir, before, 0, name)
	l.enc.uint(linkMark)
	l.enc.uint(uint64(i.shared))
	return l.end(dir, name)
}

func (l *leaves) begin(dir, before, tag uint32, name string) {
	le := binary.LittleEndian
	b := le.AppendUint32(l.enc.b[:0], before)
	b = le.AppendUint32(b, dir)
	l.enc.b = le.AppendUint32(b, tag)
	l.enc.string(name)
}

func (l *leaves) end(dir uint32, name string) uint32 {
	at := l.records.add(l.enc.b)
	if at > 0 && !l.fixed {
		l.table.add(at, l.hash(dir, name))
	}
	return at
}

func (l *leaves) hash(dir uint32, name string) uint32 {
	const golden = 0x9e3779b97f4a7c15 // spreads consecutive numbers
	return uint32(maphash.String(l.seed, name) ^ uint64(dir)*golden>>32)
}

// find returns the position of a directory's record, or 0. last is its last one.
func (l *leaves) find(dir, last uint32, name string) uint32 {
	is := func(at uint32) bool {
		known, _ := l.name(at)
		return string(known) == name && l.directory(at) == dir
	}
	if !l.fixed {
		return l.table.find(l.hash(dir, name), is)
	}
	for last > 0 && !is(last) {
		last = l.before(last)
	}
	return last
}

// load returns the inode of a record: a copy, or one that has another name.
func (l *leaves) load(at uint32) (i *Inode, linked bool) {
	tag := l.tag(at)
	_, rest := l.name(at)
	if mark, n := binary.Uvarint(rest); mark == linkMark {
		if number, _ := binary.Uvarint(rest[n:]); number > 0 && number <= uint64(len(l.shared)) {
			return l.shared[number-1], true
		}
	}
	i = &Inode{}
	l.dec.r = bytes.NewReader(rest)
	l.dec.attributes(i, l.in)
	if i.IsDir() {
		i.ref, i.number = l.dec.uint(), uint32(l.dec.uint())
		i.written = i.number > 0
	}
	if l.dec.err != nil {
		l.fail(l.dec.err)
	}
	if i.Content != nil {
		i.Content.Tag = tag
	}
	return i, false
}
