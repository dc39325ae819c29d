// Package squashfs writes a squashfs 4.0 image from a stream of file contents
// and a tree of inodes.
//
// Contents leave for the output as they come, in the order in which they come;
// inodes and directories are kept until their subtree is sealed. So nothing
// about the image depends on the order in which a caller learns of names,
// links, attributes or replacements. The bytes written depend on the input and
// the options alone, never on the number of workers.
//
// Format: https://dr-emann.github.io/squashfs/squashfs.html and
// Documentation/filesystems/squashfs.rst in the kernel; the kernel's
// fs/squashfs/super.c decides which table must follow which.
package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"
	"time"
)

// Magic is how every squashfs image starts, "hsqs".
const Magic = 0x73717368

const (
	superblockSize   = 96
	noTable          = ^uint64(0)
	flagNoFragments  = 0x0010
	flagExportable   = 0x0080
	flagNoXattrs     = 0x0200
	flagCompressOpts = 0x0400
	// Inodes, data, fragments, attributes and IDs are stored as they are.
	flagNothingPacked = 0x0001 | 0x0002 | 0x0008 | 0x0100 | 0x0800
	padding           = 4096 // loop devices read whole pages
	zstdLevel         = 1
	gzipLevel         = 6
	gzipWindow        = 15 // bits; the kernel takes no other
)

// Options of an image. The zero value gives zstd, 128 KiB blocks, one compression
// worker a core and time stamp 0.
type Options struct {
	// Compression of everything; "" means Zstd.
	Compression Compression
	// BlockSize in bytes, a power of two from 4 KiB to 1 MiB.
	BlockSize int
	// Workers is how many blocks are compressed at a time.
	Workers int
	// ModTime is the image's own time stamp.
	ModTime time.Time
}

// Validate fills in what is left out, and says what is wrong.
func (o *Options) Validate() error {
	if o.BlockSize == 0 {
		o.BlockSize = 128 << 10
	}
	if o.BlockSize < 4<<10 || o.BlockSize > 1<<20 || o.BlockSize&(o.BlockSize-1) != 0 {
		return fmt.Errorf("squashfs block size %d: not a power of two from 4096 to 1048576", o.BlockSize)
	}
	if o.Compression == "" {
		o.Compression = Zstd
	}
	if !slices.Contains([]Compression{Zstd, Gzip, None}, o.Compression) {
		return fmt.Errorf("squashfs compression %q: it is zstd, gzip or none", string(o.Compression))
	}
	if o.Workers <= 0 {
		o.Workers = goruntime.GOMAXPROCS(0)
	}
	return nil
}

// Output is where an image goes: written front to back, but for the superblock,
// which is put right at the end, and for files that turn out to be there already,
// over which the next ones are written. *os.File is one.
type Output interface {
	io.WriterAt
	Truncate(size int64) error
}

// Writer builds one image. Its methods are called from one goroutine.
type Writer struct {
	out  Output
	opts Options
	pipe *pipeline

	codec  codec // of the tables, which this goroutine writes itself
	inodes metaWriter
	dirs   metaWriter
	ids    idTable
	xattrs xattrTable

	tail      *block         // the fragment block that is being filled
	tails     uint32         // fragment blocks before it
	fragments []fragment     // the pipeline's until it is flushed
	short     map[sum]short  // tails since the last seal
	long      map[sum]uint64 // where longer contents start; the pipeline's
	exports   []uint64       // inode references by number
}

// NewWriter starts an image on out. The caller ends it with Close or Abort.
func NewWriter(out Output, opts Options) (*Writer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	codec, err := newCodec(opts.Compression)
	if err != nil {
		return nil, err
	}
	w := &Writer{out: out, opts: opts, codec: codec, short: map[sum]short{}, long: map[sum]uint64{}}
	w.inodes.codec, w.dirs.codec, w.xattrs.pairs.codec = codec, codec, codec
	start, err := w.writeHead()
	if err != nil {
		return nil, err
	}
	if w.pipe, err = newPipeline(out, start, opts); err != nil {
		return nil, err
	}
	return w, nil
}

// flags that do not depend on what is in the image.
func (o Options) flags() uint16 {
	if o.Compression == None {
		return flagExportable | flagNothingPacked
	}
	return flagExportable | flagCompressOpts
}

// writeHead leaves room for the superblock and writes the compressor options
// behind it.
func (w *Writer) writeHead() (uint64, error) {
	le := binary.LittleEndian
	head := make([]byte, superblockSize)
	switch w.opts.Compression {
	case Zstd:
		head = le.AppendUint16(head, 4|metaUncompressed)
		head = le.AppendUint32(head, zstdLevel)
	case Gzip:
		head = le.AppendUint16(head, 8|metaUncompressed)
		head = le.AppendUint32(head, gzipLevel)
		head = le.AppendUint16(le.AppendUint16(head, gzipWindow), 0) // no strategies
	}
	n, err := w.out.WriteAt(head, 0)
	return uint64(n), err
}

// Abort gives up the image and frees what it holds. The output is useless.
func (w *Writer) Abort() {
	w.pipe.close()
}

// Close seals the tree below root, writes the tables and the superblock, and
// says how many bytes the image has.
func (w *Writer) Close(root *Inode) (int64, error) {
	defer w.pipe.close()
	if err := w.Seal(root); err != nil {
		return 0, err
	}
	if err := w.flushTail(); err != nil {
		return 0, err
	}
	pos, err := w.pipe.flush()
	if err != nil {
		return 0, err
	}
	sb := superblock{
		Magic: Magic, Inodes: uint32(len(w.exports)), ModTime: clampTime(w.opts.ModTime.Unix()),
		BlockSize: uint32(w.opts.BlockSize), Fragments: uint32(len(w.fragments)),
		Compression: w.opts.Compression.id(), BlockLog: log2(w.opts.BlockSize),
		Flags: w.opts.flags(), IDs: uint16(len(w.ids.list)), Major: 4, Root: root.ref,
	}
	t := &end{pos: pos, codec: w.codec}
	start := int64(pos)
	t.tables(w, &sb)
	sb.BytesUsed = t.pos
	t.append(make([]byte, -t.pos&(padding-1)))
	if _, err := w.out.WriteAt(t.buf.Bytes(), start); err != nil {
		return 0, err
	}
	if err := w.out.Truncate(start + int64(t.buf.Len())); err != nil {
		return 0, err
	}
	if _, err := w.out.WriteAt(encode(&sb), 0); err != nil {
		return 0, err
	}
	return int64(t.pos), nil
}

type superblock struct {
	Magic, Inodes, ModTime, BlockSize, Fragments    uint32
	Compression, BlockLog, Flags, IDs, Major, Minor uint16
	Root, BytesUsed, IDTable, XattrTable            uint64
	InodeTable, DirTable, FragmentTable, Exports    uint64
}

// ErrTooManyIDs says that an image has more owners and groups than the format
// can number.
var ErrTooManyIDs = errors.New("more than 65535 different owners and groups")

func encode(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // a field of no fixed size: a fault of this package
	}
	return b
}

func clampTime(unix int64) uint32 {
	return uint32(min(max(unix, 0), 1<<32-1))
}

func log2(n int) (l uint16) {
	for ; n > 1; n >>= 1 {
		l++
	}
	return l
}
