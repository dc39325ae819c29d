package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"
)

// Reader reads a squashfs 4.0 image of any program without mounting it, if its compression is zstd or
// gzip. It is an fs.FS. Symbolic links are not followed.
//
// It holds a few blocks, whatever the size of the image. An image that is damaged or malicious is
// ErrDamaged. The Reader, and the files that it opens, are used from one goroutine.
type Reader struct {
	tables
	ids   []uint32
	level Level

	// Of the file that was found last. Most files of a layer follow each other in folders.
	folder     *node // nil for none
	folderPath string
	indexes    indexes

	fragment       []byte // the fragment block that was last used
	fragmentNumber uint32
	spare          []byte // the buffer of a file that was closed
}

// tables reads the tables of an image.
type tables struct {
	file     io.ReaderAt
	sb       superblock
	inflater inflater
	packed   []byte      // the block that is being decompressed
	metas    []metaBlock // the most recently used is the last
}

var (
	_ fs.StatFS     = (*Reader)(nil)
	_ fs.ReadDirFS  = (*Reader)(nil)
	_ fs.ReadFileFS = (*Reader)(nil)
	_ fs.ReadLinkFS = (*Reader)(nil)
)

const (
	superblockSize = 96
	maxCachedMetas = 16   // blocks of tables: those of inodes and listings alternate
	metaRatio      = 1024 // more than any encoder compresses 8 KiB
)

// OpenImage reads the superblock of an image of size bytes, and its table of owners. The error is
// ErrDamaged if it is not an image that Reader reads.
func OpenImage(file io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{tables: tables{file: file}, fragmentNumber: noFragment}
	if err := r.decodeAt(&r.sb, 0); err != nil {
		return nil, err
	}
	if err := r.sb.check(size); err != nil {
		return nil, err
	}
	r.inflater.compression = r.sb.compression()
	r.packed = make([]byte, max(r.sb.BlockSize, metaBlockSize))
	var err error
	if r.level, err = r.readLevel(); err != nil {
		return nil, err
	}
	ids, err := r.lookup(r.sb.IDTable, 0, 4)
	if err != nil {
		return nil, err
	}
	list := make([]byte, 4*int(r.sb.IDs))
	if err := ids.read(list); err != nil {
		return nil, err
	}
	for id := range slices.Chunk(list, 4) {
		r.ids = append(r.ids, binary.LittleEndian.Uint32(id))
	}
	return r, nil
}

// Used returns how many bytes an image has, by its superblock; 0 for what is not an image.
func Used(file io.ReaderAt) int64 {
	t := tables{file: file}
	if t.decodeAt(&t.sb, 0) != nil || t.sb.Magic != Magic || t.sb.BytesUsed > math.MaxInt64/2 {
		return 0
	}
	return int64(t.sb.BytesUsed)
}

// check makes the checks of the kernel's fs/squashfs/super.c.
func (sb *superblock) check(size int64) error {
	switch {
	case sb.Magic != Magic:
		return damaged("not a squashfs image")
	case sb.Major != 4 || sb.Minor != 0:
		return damaged("version %d.%d, not 4.0", sb.Major, sb.Minor)
	case sb.Compression != Zstd.id() && sb.Compression != Gzip.id():
		return damaged("compression number %d, not zstd or gzip", sb.Compression)
	case sb.BlockLog < 12 || sb.BlockLog > 20 || sb.BlockSize != 1<<sb.BlockLog:
		return damaged("blocks of %d bytes", sb.BlockSize)
	case size < 0 || sb.BytesUsed > uint64(size):
		return damaged("%d bytes of %d", size, sb.BytesUsed)
	case sb.IDs == 0:
		return damaged("no table of owners")
	}
	at := uint64(superblockSize)
	for _, table := range []uint64{sb.InodeTable, sb.DirTable, sb.IDTable, sb.BytesUsed} {
		if table < at {
			return damaged("the tables are not in order")
		}
		at = table
	}
	return nil
}

func (sb *superblock) compression() Compression {
	switch {
	case sb.Compression == Zstd.id():
		return Zstd
	case sb.Flags&flagNothingPacked == flagNothingPacked:
		return None
	}
	return Gzip
}

// readLevel reads the number of the level, which follows the superblock: see Writer.head.
func (t *tables) readLevel() (Level, error) {
	var options struct {
		Header uint16
		Number uint32
	}
	if t.sb.Flags&flagCompressOpts != 0 {
		if err := t.decodeAt(&options, superblockSize); err != nil {
			return "", err
		}
	}
	return t.sb.compression().levelOf(int(options.Number)), nil
}

// Size is how many bytes the image has; a file may have others behind it.
func (r *Reader) Size() int64 { return int64(r.sb.BytesUsed) }

// Options returns the options that the image was written with.
func (r *Reader) Options() Options {
	return Options{
		Compression: r.sb.compression(), Level: r.level, BlockSize: int(r.sb.BlockSize),
		ModTime: time.Unix(int64(r.sb.ModTime), 0),
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// readAt fills p from an offset of the image.
func (t *tables) readAt(p []byte, at uint64) error {
	if at > math.MaxInt64 {
		return damaged("a reference to byte %d", at)
	}
	n, err := t.file.ReadAt(p, int64(at))
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) { // not to be taken for the end of a file in the image
		err = io.ErrUnexpectedEOF
	}
	return damaged("%d bytes at %d cannot be read: %w", len(p), at, err)
}

// decodeAt reads a value of fixed size.
func (t *tables) decodeAt(v any, at uint64) error {
	b := make([]byte, binary.Size(v))
	if err := t.readAt(b, at); err != nil {
		return err
	}
	_, err := binary.Decode(b, binary.LittleEndian, v)
	return err
}

// metaBlock is a block of a table.
type metaBlock struct {
	at, next uint64
	raw      []byte
}

// meta reads the block of a table at an offset. The result is valid until the next call.
func (t *tables) meta(at uint64) (metaBlock, error) {
	if n := slices.IndexFunc(t.metas, func(b metaBlock) bool { return b.at == at }); n >= 0 {
		b := t.metas[n]
		t.metas = append(slices.Delete(t.metas, n, n+1), b)
		return b, nil
	}
	b := metaBlock{at: at}
	if len(t.metas) < maxCachedMetas {
		b.raw = make([]byte, 0, metaBlockSize)
	} else {
		b.raw = t.metas[0].raw
		t.metas = slices.Delete(t.metas, 0, 1)
	}
	if err := t.readMeta(&b); err != nil {
		return metaBlock{}, err
	}
	t.metas = append(t.metas, b)
	return b, nil
}

func (t *tables) readMeta(b *metaBlock) error {
	var word uint16
	if b.at < superblockSize || b.at >= t.sb.BytesUsed {
		return damaged("a table at %d", b.at)
	}
	if err := t.decodeAt(&word, b.at); err != nil {
		return err
	}
	size := int(word &^ metaUncompressed)
	b.next = b.at + 2 + uint64(size)
	if size == 0 || size > metaBlockSize || b.next > t.sb.BytesUsed {
		return damaged("a block of %d bytes in a table at %d", size, b.at)
	}
	packed := t.packed[:size]
	if err := t.readAt(packed, b.at+2); err != nil {
		return err
	}
	if word&metaUncompressed != 0 {
		b.raw = append(b.raw[:0], packed...)
		return nil
	}
	raw, err := t.inflater.inflate(b.raw[:0:metaBlockSize], packed)
	if err != nil {
		return damaged("a block of a table at %d: %w", b.at, err)
	}
	b.raw = raw
	return nil
}

// cursor reads a table across its blocks.
type cursor struct {
	t      *tables
	at     uint64 // of the block
	offset int    // in it
	n      int64  // bytes that were read
}

// cursorAt returns a cursor at a reference of the format, in the table that starts at table.
func (t *tables) cursorAt(table, ref uint64) *cursor {
	return &cursor{t: t, at: table + ref>>16, offset: int(ref & math.MaxUint16)}
}

// lookup returns a cursor at an entry of a table that end.lookup has written. index is the offset of
// the table's index.
func (t *tables) lookup(index uint64, number uint32, entrySize int) (*cursor, error) {
	if index >= t.sb.BytesUsed {
		return nil, damaged("a table at %d", index)
	}
	at := uint64(number) * uint64(entrySize)
	c := &cursor{t: t, offset: int(at % metaBlockSize)}
	return c, t.decodeAt(&c.at, index+at/metaBlockSize*8)
}

// read fills p.
func (c *cursor) read(p []byte) error {
	c.n += int64(len(p))
	for len(p) > 0 {
		b, err := c.t.meta(c.at)
		if err != nil {
			return err
		}
		if c.offset > len(b.raw) {
			return damaged("byte %d of a block of %d in a table", c.offset, len(b.raw))
		}
		n := copy(p, b.raw[c.offset:])
		p, c.offset = p[n:], c.offset+n
		if c.offset == len(b.raw) && len(p) > 0 {
			c.at, c.offset = b.next, 0
		}
	}
	return nil
}

// decode reads a value of fixed size.
func (c *cursor) decode(v any) error {
	b := make([]byte, binary.Size(v))
	if err := c.read(b); err != nil {
		return err
	}
	_, err := binary.Decode(b, binary.LittleEndian, v)
	return err
}
