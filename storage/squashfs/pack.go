package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// PackVersion is that of a pack's form and of the bytes that go into it: packs of
// another version are of no use.
const PackVersion = "1"

// ErrDamaged says that a pack or an image is not what was written.
var ErrDamaged = errors.New("pack or image is damaged")

// The form of a pack: a head, the blocks, the index, which zstd compresses, and a
// foot that says where the index is and what its SHA-256 is.
const (
	packMark = "pinbox pack v" + PackVersion + "\n\x00"
	packHead = len(packMark)
	packFoot = 8 + 8 + sha256.Size
)

// Packer writes one pack. Its methods are called from one goroutine.
type Packer struct {
	compressor *Compressor
	pipe       *pipeline

	tail  *block            // the fragment block that is being filled
	tails uint32            // fragment blocks before it
	short map[tailSum]short // contents of fragments

	contents []*Content
	// The pipeline's until it is closed.
	fragments []fragment
	extents   []extent
}

// NewPacker starts a pack on out. The caller ends it with Close or Abort.
func (c *Compressor) NewPacker(out io.Writer) *Packer {
	p := &Packer{compressor: c, pipe: newPipeline(out, c), short: map[tailSum]short{}}
	p.pipe.append([]byte(packMark))
	return p
}

// Abort gives up the pack and frees what it holds.
func (p *Packer) Abort() {
	if p.tail != nil {
		p.pipe.put(p.tail)
		p.tail = nil
	}
	p.pipe.close()
}

// Close ends the pack with the tree below root, and a note that its reader gets.
func (p *Packer) Close(root *Inode, note []byte) error {
	defer p.Abort()
	if err := p.flushTail(); err != nil {
		return err
	}
	p.pipe.close()
	start, sum := p.pipe.pos, sha256.New()
	zip, err := zstd.NewWriter(io.MultiWriter(p.pipe, sum), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10))
	if err != nil {
		return err
	}
	if err := errors.Join(encodeIndex(zip, p, root, note), zip.Close()); err != nil {
		return err
	}
	foot := binary.LittleEndian.AppendUint64(nil, start)
	foot = binary.LittleEndian.AppendUint64(foot, p.pipe.pos-start)
	p.pipe.append(sum.Sum(foot))
	if err := p.pipe.failure(); err != nil {
		return err
	}
	return p.pipe.out.Flush()
}

// Reopen ends the pack for use at once, by trees of the caller's: src gives back what
// was written.
func (p *Packer) Reopen(src File) (*Pack, error) {
	defer p.Abort()
	if err := p.flushTail(); err != nil {
		return nil, err
	}
	p.pipe.close()
	if err := p.pipe.failure(); err != nil {
		return nil, err
	}
	pack := &Pack{src: src, contents: p.contents, fragments: p.fragments, extents: p.extents}
	pack.lend()
	return pack, p.pipe.out.Flush()
}

// File is where a pack stands. *os.File is one.
type File interface {
	io.ReaderAt
	io.Closer
}

// Pack is a pack that was read: its tree. Its blocks stay where they are until an
// image is written.
type Pack struct {
	// Root of the tree.
	Root *Inode
	// Note that it was closed with.
	Note []byte

	src       File
	contents  []*Content
	fragments []fragment
	extents   []extent
}

// OpenPack reads the index of a pack of size bytes. It is ErrDamaged if that is not
// what was written; the blocks are looked at when an image is.
func (c *Compressor) OpenPack(src File, size int64) (*Pack, error) {
	pack, err := readPack(src, size)
	if err != nil {
		return nil, &Damage{File: src, cause: fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	pack.src = src
	pack.lend()
	return pack, nil
}

func readPack(src io.ReaderAt, size int64) (*Pack, error) {
	if size < int64(packHead+packFoot) {
		return nil, fmt.Errorf("%d bytes", size)
	}
	head, foot := make([]byte, packHead), make([]byte, packFoot)
	if _, err := src.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if _, err := src.ReadAt(foot, size-int64(packFoot)); err != nil {
		return nil, err
	}
	start, length := binary.LittleEndian.Uint64(foot), binary.LittleEndian.Uint64(foot[8:])
	if string(head) != packMark || start < uint64(packHead) || start > uint64(size) ||
		length != uint64(size)-start-uint64(packFoot) {
		return nil, errors.New("it is no pack of this version")
	}
	packed := make([]byte, length)
	if _, err := src.ReadAt(packed, int64(start)); err != nil {
		return nil, err
	}
	if sha256.Sum256(packed) != [sha256.Size]byte(foot[16:]) {
		return nil, errors.New("its index has another sum")
	}
	unzip, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer unzip.Close()
	return decodeIndex(unzip)
}

// File is where the pack stands.
func (p *Pack) File() File { return p.src }

// Check reads the blocks and compares them with their sums.
func (p *Pack) Check() error {
	for _, e := range p.extents {
		if err := (part{from: int64(e.start), size: int64(e.size), check: e.check}).copy(io.Discard, p.src,
			make([]byte, copySize)); err != nil {
			return err
		}
	}
	return nil
}
