package squashfs

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"
)

// Reader reads an image without mounting it: one of ours, or any of squashfs 4.0
// whose compression is zstd or gzip. It is an fs.FS, in which symbolic links are not
// followed.
//
// It reads what it is asked for, and holds a few blocks, whatever the size of the
// image. The image may be damaged or made to do harm: that is ErrDamaged. It is used
// from one goroutine, and so are the files that it opens.
type Reader struct {
	src      io.ReaderAt
	sb       superblock
	inflater inflater
	ids      []uint32
	packed   []byte
	metas    []metaBlock // what was used last stands last

	fragment       []byte // the block of short files that was used last
	fragmentNumber uint32
}

var (
	_ fs.StatFS     = (*Reader)(nil)
	_ fs.ReadDirFS  = (*Reader)(nil)
	_ fs.ReadFileFS = (*Reader)(nil)
	_ fs.ReadLinkFS = (*Reader)(nil)
)

const (
	superblockSize = 96
	keptMetas      = 16   // blocks of tables: those of inodes and listings are read in turns
	metaRatio      = 1024 // more than any 8 KiB are compressed
)

// OpenImage reads the superblock of an image of size bytes, and its table of owners.
func OpenImage(src io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{src: src, fragmentNumber: noFragment}
	if err := r.decodeAt(&r.sb, 0); err != nil {
		return nil, err
	}
	if err := r.sb.check(size); err != nil {
		return nil, err
	}
	r.inflater.compression = r.sb.compression()
	r.packed = make([]byte, max(r.sb.BlockSize, metaBlockSize))
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

// check is what the kernel asks of a superblock, in fs/squashfs/super.c.
func (sb *superblock) check(size int64) error {
	switch {
	case sb.Magic != Magic:
		return damaged("it is no squashfs")
	case sb.Major != 4 || sb.Minor != 0:
		return damaged("its version is %d.%d, not 4.0", sb.Major, sb.Minor)
	case sb.Compression != Zstd.id() && sb.Compression != Gzip.id():
		return damaged("its compression is number %d, not zstd or gzip", sb.Compression)
	case sb.BlockLog < 12 || sb.BlockLog > 20 || sb.BlockSize != 1<<sb.BlockLog:
		return damaged("its blocks have %d bytes", sb.BlockSize)
	case size < 0 || sb.BytesUsed > uint64(size):
		return damaged("%d bytes are there of %d", size, sb.BytesUsed)
	case sb.IDs == 0:
		return damaged("it has no owners")
	}
	at := uint64(superblockSize)
	for _, table := range []uint64{sb.InodeTable, sb.DirTable, sb.IDTable, sb.BytesUsed} {
		if table < at {
			return damaged("its tables are not in order")
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

// Options that the image was written with.
func (r *Reader) Options() Options {
	return Options{
		Compression: r.sb.compression(), BlockSize: int(r.sb.BlockSize), ModTime: time.Unix(int64(r.sb.ModTime), 0),
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// readAt fills p with what stands at a place in the image.
func (r *Reader) readAt(p []byte, at uint64) error {
	if at > math.MaxInt64 {
		return damaged("it speaks of byte %d", at)
	}
	if n, err := r.src.ReadAt(p, int64(at)); n < len(p) {
		return damaged("%d bytes at %d cannot be read: %w", len(p), at, err)
	}
	return nil
}

// decodeAt reads a value of fixed size.
func (r *Reader) decodeAt(v any, at uint64) error {
	b := make([]byte, binary.Size(v))
	if err := r.readAt(b, at); err != nil {
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

// meta gives the block of a table that stands at a place, until it is called again.
func (r *Reader) meta(at uint64) (metaBlock, error) {
	if n := slices.IndexFunc(r.metas, func(b metaBlock) bool { return b.at == at }); n >= 0 {
		b := r.metas[n]
		r.metas = append(slices.Delete(r.metas, n, n+1), b)
		return b, nil
	}
	b := metaBlock{at: at}
	if len(r.metas) < keptMetas {
		b.raw = make([]byte, 0, metaBlockSize)
	} else {
		b.raw = r.metas[0].raw
		r.metas = slices.Delete(r.metas, 0, 1)
	}
	if err := r.readMeta(&b); err != nil {
		return metaBlock{}, err
	}
	r.metas = append(r.metas, b)
	return b, nil
}

func (r *Reader) readMeta(b *metaBlock) error {
	var word uint16
	if b.at < superblockSize || b.at >= r.sb.BytesUsed {
		return damaged("a table at %d", b.at)
	}
	if err := r.decodeAt(&word, b.at); err != nil {
		return err
	}
	size := int(word &^ metaUncompressed)
	b.next = b.at + 2 + uint64(size)
	if size == 0 || size > metaBlockSize || b.next > r.sb.BytesUsed {
		return damaged("a block of %d bytes in a table at %d", size, b.at)
	}
	packed := r.packed[:size]
	if err := r.readAt(packed, b.at+2); err != nil {
		return err
	}
	if word&metaUncompressed != 0 {
		b.raw = append(b.raw[:0], packed...)
		return nil
	}
	raw, err := r.inflater.inflate(b.raw[:0:metaBlockSize], packed)
	if err != nil {
		return damaged("a block of a table at %d: %w", b.at, err)
	}
	b.raw = raw
	return nil
}

// cursor reads what stands in the blocks of a table.
type cursor struct {
	r      *Reader
	at     uint64 // of the block
	offset int    // in it
	n      int64  // bytes that were read
}

// cursorAt is where a reference of the format leads to, in the table that starts at
// a place.
func (r *Reader) cursorAt(table, ref uint64) *cursor {
	return &cursor{r: r, at: table + ref>>16, offset: int(ref & math.MaxUint16)}
}

// lookup leads to an entry of a table that end.lookup has written. index is where the
// places of the table's blocks stand.
func (r *Reader) lookup(index uint64, number uint32, entrySize int) (*cursor, error) {
	if index >= r.sb.BytesUsed {
		return nil, damaged("a table at %d", index)
	}
	at := uint64(number) * uint64(entrySize)
	c := &cursor{r: r, offset: int(at % metaBlockSize)}
	return c, r.decodeAt(&c.at, index+at/metaBlockSize*8)
}

// read fills p.
func (c *cursor) read(p []byte) error {
	c.n += int64(len(p))
	for len(p) > 0 {
		b, err := c.r.meta(c.at)
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
