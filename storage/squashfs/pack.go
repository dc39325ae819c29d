package squashfs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/pinbox/pinbox/storage/fault"
)

// PackVersion is the version of the pack format and of the way in which blocks are made. Packs of
// other versions cannot be used. docs/format.md has the parts of a pack.
//
// Numbers in the index are varints of encoding/binary. Strings have their length before them. The
// index has, in this order,
//
//  1. the note, a string of JSON: digest, the DiffID of the layer, blob, the digest of the blob that
//     was unpacked, size of the tar stream, uids, gids;
//  2. the number of extents that files use, and of each the bytes between the one before (or the head)
//     and it, its size and SHA-256;
//  3. the number of fragment blocks, and of each its offset and size word;
//  4. 0, and the inode of the root, which has the entries diff and tar-split.gz. The pack of a file has
//     the entry file, and in its note the digest of the file.
//
// An inode is mode, user, group, time (signed), the number of attributes with name and value of each,
// and then: of a regular file the content, of a symbolic link the target, of a device major and minor.
// A directory has the number of its entries, sorted by name, and of each the name, a number and,
// unless that is more than 1, the inode. The number is 0 for an inode with one name, 1 for the first
// name of one with several; and for a further name it is 1 more than that inode's among those with
// several, counted from 1.
//
// A content is its size, the fragment block + 1, and the offset in it. One without a fragment block
// has, in place of the offset, the offset of the first block, the bytes of zeros, and the number of
// blocks with the size word of each. An empty one has its size only.
const PackVersion = "5"

// ErrDamaged reports that a pack or an image does not have the bytes that were written.
var ErrDamaged = fault.New(fault.Damaged, "pack or image is damaged",
	"if it was copied, copy it again, and check it with `pinbox verify`; else the disk does not return what was written "+
		"to it: check the disk")

// A pack is a head, the blocks, the index, compressed by zstd, and a foot with the index's offset,
// length and SHA-256.
const (
	packMark = "pinbox pack v" + PackVersion + "\n\x00"
	packHead = len(packMark)
	packFoot = 8 + 8 + sha256.Size
)

// Packer writes one pack. Its methods are called from one goroutine.
type Packer struct {
	compressor *Compressor
	pipe       *pipeline

	tail  *block // the fragment block that is being filled
	tails uint32 // fragment blocks before it
	short tails

	pack *packData
	// Written by the pipeline until it is closed.
	fragments []fragment
	extents   []extent
	// Of the extent that it is writing.
	sum   hash.Hash
	keyed *maphash.Hash
}

// NewPacker starts a pack on out. The caller ends it with Close or Abort.
func (c *Compressor) NewPacker(out io.Writer) *Packer {
	p := &Packer{
		compressor: c, pipe: newPipeline(out, c), pack: &packData{}, sum: sha256.New(), keyed: c.keyed.hash(),
	}
	p.short.tmp = c.opts.Tmp
	p.pipe.append([]byte(packMark))
	return p
}

// Abort ends an incomplete pack and frees its blocks. After Close it does nothing.
func (p *Packer) Abort() {
	if p.tail != nil {
		p.pipe.put(p.tail)
		p.tail = nil
	}
	p.pipe.close()
}

// Close ends the pack: it writes the tree below root, and a note for those who open the pack.
func (p *Packer) Close(root *Inode, note []byte) error {
	defer p.Abort()
	if err := p.flushTail(); err != nil {
		return err
	}
	p.pipe.close()
	if p.short.err != nil {
		return p.short.err
	}
	p.short = tails{} // frees its memory
	start, sum := p.pipe.pos, sha256.New()
	zip, err := p.compressor.encoder(io.MultiWriter(p.pipe, sum))
	if err != nil {
		return err
	}
	if err := errors.Join(encodeIndex(zip, p, root, note), zip.Close()); err != nil {
		return err
	}
	p.compressor.encoders.Put(zip)
	if p.pipe.pos >= leastKeyed {
		p.compressor.keyed.add([sha256.Size]byte(sum.Sum(nil)), p.extents)
	}
	foot := binary.LittleEndian.AppendUint64(nil, start)
	foot = binary.LittleEndian.AppendUint64(foot, p.pipe.pos-start)
	p.pipe.append(sum.Sum(foot))
	if err := p.pipe.failure(); err != nil {
		return err
	}
	return p.pipe.flush()
}

// Reopen ends the pack without an index, and opens it for trees that the caller makes of its
// contents. The blocks are read from file, which must have what the Packer wrote.
func (p *Packer) Reopen(file File) (*Pack, error) {
	defer p.Abort()
	if err := p.flushTail(); err != nil {
		return nil, err
	}
	p.pipe.close()
	if err := p.pipe.failure(); err != nil {
		return nil, err
	}
	p.pack.file, p.pack.fragments, p.pack.extents, p.pack.keys = file, p.fragments, p.extents, p.compressor.keyed
	return &Pack{packData: p.pack}, p.pipe.flush()
}

// File has a pack. *os.File is a File.
type File interface {
	io.ReaderAt
	io.Closer
}

// Pack is an open pack. Its blocks are read when an image is written.
type Pack struct {
	// Root of the tree.
	Root *Inode
	// Note that the Packer was closed with.
	Note []byte

	*packData
}

// OpenPack reads the index of a pack of size bytes, and verifies it. The error is a *Damage. The
// blocks are verified when an image is written.
func (c *Compressor) OpenPack(file File, size int64) (*Pack, error) {
	pack, index, err := readPack(file, size, c.opts.Tmp)
	if err != nil {
		return nil, &Damage{File: file, cause: fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	pack.file, pack.keys = file, c.keyed
	c.keyed.take(index, pack.extents)
	return pack, nil
}

// readPack returns also the digest of the index.
func readPack(r io.ReaderAt, size int64, tmp string) (p *Pack, index [sha256.Size]byte, err error) {
	if size < int64(packHead+packFoot) {
		return nil, index, fmt.Errorf("%d bytes, too few for a pack", size)
	}
	head, foot := make([]byte, packHead), make([]byte, packFoot)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, index, err
	}
	if _, err := r.ReadAt(foot, size-int64(packFoot)); err != nil {
		return nil, index, err
	}
	start, length := binary.LittleEndian.Uint64(foot), binary.LittleEndian.Uint64(foot[8:])
	if string(head) != packMark || start < uint64(packHead) || start > uint64(size) ||
		length != uint64(size)-start-uint64(packFoot) {
		return nil, index, errors.New("not a pack of version " + PackVersion)
	}
	packed := make([]byte, length)
	if _, err := r.ReadAt(packed, int64(start)); err != nil {
		return nil, index, err
	}
	if index = sha256.Sum256(packed); index != [sha256.Size]byte(foot[16:]) {
		return nil, index, errors.New("the index has another SHA-256")
	}
	unzip, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, index, err
	}
	defer unzip.Close()
	p, err = decodeIndex(unzip, tmp)
	return p, index, err
}

// Damaged returns the error of a pack whose content is not the one that its caller wants: a *Damage.
func (p *Pack) Damaged(cause error) error {
	return &Damage{File: p.file, cause: fmt.Errorf("%w: %w", ErrDamaged, cause)}
}

// Check reads the blocks and compares them with their digests. The error is ErrDamaged.
func (p *Pack) Check() error {
	for _, e := range p.extents {
		if err := p.part(e).copy(io.Discard, p.file, p.keys, make([]byte, min(copySize, e.size))); err != nil {
			return err
		}
	}
	return nil
}

// MoveTo verifies the blocks of a small pack, and writes them to a position of another file, which the pack is in then.
// It returns how many bytes they have. The caller closes the former file. The error is a *Damage if the pack is
// damaged.
func (p *Pack) MoveTo(file interface {
	File
	io.WriterAt
}, at int64) (size int64, err error) {
	if err := p.Check(); err != nil {
		return 0, p.damage(err)
	}
	if n := len(p.extents); n > 0 {
		last := p.extents[n-1]
		blocks := make([]byte, last.start+last.size-uint64(packHead))
		if _, err := p.file.ReadAt(blocks, int64(p.base)+int64(packHead)); err != nil {
			return 0, p.Damaged(err)
		}
		if _, err := file.WriteAt(blocks, at); err != nil {
			return 0, err
		}
		size = int64(len(blocks))
	}
	p.file, p.base = file, uint64(at)-uint64(packHead)
	return size, nil
}

// packData is what the contents of a pack refer to. It does not hold the pack's tree.
type packData struct {
	file      File
	base      uint64 // where the pack starts in the file, in bytes
	fragments []fragment
	extents   []extent // in the order of the file
	keys      *keyedSums

	// Of Writer.AddPack: where the extents are in the image, and the number of the first fragment.
	moved    []uint64
	fragment uint32
}

// find returns the number of the extent that starts there.
func (in *packData) find(start uint64) (n int, ok bool) {
	return slices.BinarySearchFunc(in.extents, start, func(e extent, at uint64) int { return cmp.Compare(e.start, at) })
}

// place returns, after Writer.AddPack, where the extent is in the image that starts there in the pack; 0 for a content
// without blocks.
func (in *packData) place(start uint64) uint64 {
	n, ok := in.find(start)
	if !ok {
		return 0
	}
	return in.moved[n]
}

func (in *packData) damage(err error) error {
	if errors.Is(err, ErrDamaged) {
		return &Damage{File: in.file, cause: err}
	}
	return err
}
