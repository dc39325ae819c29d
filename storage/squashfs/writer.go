package squashfs

import (
	"encoding/binary"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/fault"
)

// Magic is the number with which every squashfs image starts, "hsqs" in little endian.
const Magic = 0x73717368

const (
	noTable          = ^uint64(0)
	flagNoFragments  = 0x0010
	flagExportable   = 0x0080
	flagNoXattrs     = 0x0200
	flagCompressOpts = 0x0400
	// Inodes, data, fragments, attributes and IDs are stored uncompressed.
	flagNothingPacked = 0x0001 | 0x0002 | 0x0008 | 0x0100 | 0x0800
	padding           = 4096 // loop devices read whole pages
	gzipWindow        = 15   // bits; the kernel accepts no other
)

// Options of packs and images. The zero value is zstd of the default level, blocks of 128 KiB, one worker
// for each core, and the zero time, which becomes time stamp 0.
type Options struct {
	// Compression of everything; "" means Zstd.
	Compression Compression
	// Level of the compression; "" means Default.
	Level Level
	// BlockSize in bytes, a power of two from 4 KiB to 1 MiB; 0 means 128 KiB.
	BlockSize int
	// Workers is how many blocks are compressed at a time; 0 means one for each core.
	Workers int
	// ModTime is the time stamp of the image itself.
	ModTime time.Time
	// Tmp is a folder for files without names, which have what is known of large layers. "" keeps it in memory.
	Tmp string
}

// Validate sets the fields that are zero to their defaults, and checks the others.
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
		return fmt.Errorf("squashfs compression %q: not zstd, gzip or none", string(o.Compression))
	}
	if o.Level == "" {
		o.Level = Default
	}
	if _, ok := levels[Zstd][o.Level]; !ok {
		return fmt.Errorf("squashfs compression level %q: not fast, default or best", string(o.Level))
	}
	if o.Workers <= 0 {
		o.Workers = goruntime.GOMAXPROCS(0)
	}
	return nil
}

// Writer lays out one image from packs, which have the contents, and trees of inodes. The layout is
// complete before the first byte is written, so an image is written front to back, to any io.Writer.
// The methods are called from one goroutine.
type Writer struct {
	opts Options

	block  codec.Block
	inodes metaWriter
	dirs   metaWriter
	ids    idTable
	xattrs xattrTable

	pos       uint64         // where the next extent starts
	starts    map[sum]uint64 // of extents, by their sums
	runs      []run
	files     []io.Closer
	fragments []fragment
	exports   []uint64 // inode references by number
}

// NewWriter starts an image. The caller ends it with Close or Abort.
func NewWriter(opts Options) (*Writer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	block, err := opts.newBlock()
	if err != nil {
		return nil, err
	}
	w := &Writer{opts: opts, block: block, starts: map[sum]uint64{}}
	w.inodes.block, w.dirs.block, w.xattrs.pairs.block = block, block, block
	w.pos = uint64(len(w.head(superblock{})))
	return w, nil
}

// Encoding identifies what, besides the input, determines the bytes of a pack: the options, which
// must be valid, the encoder and the version of the pack format.
func (o Options) Encoding() string {
	return fmt.Sprintf("%s-%d-v%s", o.encoder(), o.BlockSize, PackVersion)
}

// flags that do not depend on what is in the image.
func (o Options) flags() uint16 {
	if o.Compression == None {
		return flagExportable | flagNothingPacked
	}
	return flagExportable | flagCompressOpts
}

// head returns the superblock, followed by the options of the compression.
func (w *Writer) head(sb superblock) []byte {
	le := binary.LittleEndian
	head := encode(&sb)
	switch w.opts.Compression {
	case Zstd:
		head = le.AppendUint16(head, 4|metaUncompressed)
		head = le.AppendUint32(head, uint32(w.opts.level()))
	case Gzip:
		head = le.AppendUint16(head, 8|metaUncompressed)
		head = le.AppendUint32(head, uint32(w.opts.level()))
		head = le.AppendUint16(le.AppendUint16(head, gzipWindow), 0) // no strategies
	}
	return head
}

// Abort ends an incomplete image, and closes the packs that were added.
func (w *Writer) Abort() { closeAll(w.files) }

// Close writes the tree below root into the tables and returns the image. The image closes the packs.
func (w *Writer) Close(root *Inode) (*Image, error) {
	if err := w.WriteTree(root); err != nil {
		return nil, err
	}
	sb := superblock{
		Magic: Magic, Inodes: uint32(len(w.exports)), ModTime: clampTime(w.opts.ModTime.Unix()),
		BlockSize: uint32(w.opts.BlockSize), Fragments: uint32(len(w.fragments)),
		Compression: w.opts.Compression.id(), BlockLog: log2(w.opts.BlockSize),
		Flags: w.opts.flags(), IDs: uint16(len(w.ids.list)), Major: 4, Root: root.ref,
	}
	t := &end{pos: w.pos, block: w.block}
	t.tables(w, &sb)
	sb.BytesUsed = t.pos
	t.append(make([]byte, -t.pos&(padding-1)))
	return &Image{head: w.head(sb), runs: w.runs, tables: t.buf, size: int64(t.pos), files: w.files}, nil
}

type superblock struct {
	Magic, Inodes, ModTime, BlockSize, Fragments    uint32
	Compression, BlockLog, Flags, IDs, Major, Minor uint16
	Root, BytesUsed, IDTable, XattrTable            uint64
	InodeTable, DirTable, FragmentTable, Exports    uint64
}

// ErrTooManyIDs reports that an image has more owners and groups than the format can number.
var ErrTooManyIDs = fault.New(fault.Input, "more than 65535 different owners and groups in one squashfs",
	"remove the image, or build it again with fewer file owners; spec.store.format dir has no limit")

func encode(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // a field of variable size: a bug of this package
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
