package verity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/opencontainers/go-digest"
)

// BlockSize of data and tree, in bytes: the page size of every kernel that can mount a store.
const BlockSize = 4096

// Tree is what a kernel needs in order to verify data.
type Tree struct {
	// Root is the digest of the top of the tree, and with it of all data.
	Root digest.Digest `json:"root"`
	// Blocks is the number of blocks of data.
	Blocks int64 `json:"blocks"`
}

// IsZero reports whether there is no tree.
func (t Tree) IsZero() bool { return t == Tree{} }

// Validate returns an error if no kernel could use the tree.
func (t Tree) Validate() error {
	if err := t.Root.Validate(); err != nil || t.Root.Algorithm() != digest.SHA256 {
		return fmt.Errorf("root %q: not a SHA-256", t.Root)
	}
	if t.Blocks < 1 || t.Blocks > maxBlocks {
		return fmt.Errorf("blocks %d: not from 1 to %d", t.Blocks, int64(maxBlocks))
	}
	return nil
}

// maxBlocks keeps every size in an int64. It is 1 EiB of data.
const maxBlocks = 1 << 48

// Table returns the table of dmsetup(8) for a device with data and tree.
func (t Tree) Table(device string) string {
	return fmt.Sprintf("0 %d verity 1 %s %s %d %d %d %d sha256 %s -", t.Blocks*(BlockSize/512), device, device,
		BlockSize, BlockSize, t.Blocks, t.Blocks+1, t.Root.Encoded())
}

// RootHash returns the content of a file for veritysetup(8) --root-hash-file.
func (t Tree) RootHash() []byte { return []byte(t.Root.Encoded() + "\n") }

// Size returns the size of a file with so many bytes of data, the superblock and the tree, in bytes.
func Size(data int64) int64 { return total(blocks(data)) * BlockSize }

// blocks is the number of blocks that data takes.
func blocks(data int64) int64 { return (data + BlockSize - 1) / BlockSize }

// total is the number of blocks of data, superblock and tree.
func total(data int64) int64 {
	all := data + 1
	for _, level := range levels(data) {
		all += level
	}
	return all
}

// levels are the numbers of blocks of the tree's levels, the lowest first. A single block of data
// has no tree: its digest is the root.
func levels(data int64) (all []int64) {
	for data > 1 {
		data = (data + perBlock - 1) / perBlock
		all = append(all, data)
	}
	return all
}

// dataBlocks returns the blocks of data in a file with a tree, 0 if a file with a tree cannot have
// this size in bytes.
func dataBlocks(size int64) int64 {
	if size <= 0 || size%BlockSize != 0 || size/BlockSize > maxBlocks {
		return 0
	}
	all := size / BlockSize
	data := int64(sort.Search(int(all), func(n int) bool { return total(int64(n)) >= all }))
	if data == 0 || total(data) != all {
		return 0
	}
	return data
}

// ErrSuperblock is a superblock that no kernel would use like one of this package.
var ErrSuperblock = errors.New("not a superblock of dm-verity with SHA-256, blocks of 4096 bytes and no salt")

// magic begins a superblock: VERITY_SIGNATURE in cryptsetup's lib/verity/verity.c.
const magic = "verity\x00\x00"

// uuidStart and uuidEnd are where a superblock has its UUID, which is made of the root.
const uuidStart, uuidEnd = 16, 32

// superblock returns the block before the tree: struct verity_sb in cryptsetup's lib/verity/verity.c.
func (t Tree) superblock() []byte {
	b, le := make([]byte, BlockSize), binary.LittleEndian
	copy(b, magic)
	le.PutUint32(b[8:], 1)  // version
	le.PutUint32(b[12:], 1) // type: the salt comes before the data
	root := t.root()
	copy(b[uuidStart:uuidEnd], root[:16])
	b[22] = b[22]&0x0f | 0x80 // UUID version 8, RFC 9562
	b[24] = b[24]&0x3f | 0x80
	copy(b[32:64], "sha256")
	le.PutUint32(b[64:], BlockSize)
	le.PutUint32(b[68:], BlockSize)
	le.PutUint64(b[72:], uint64(t.Blocks))
	return b // no salt
}

// ParseSuperblock returns the number of blocks of data that a superblock names.
func ParseSuperblock(b []byte) (blocks int64, err error) {
	if len(b) < 512 || string(b[:8]) != magic { // the size of struct verity_sb
		return 0, ErrSuperblock
	}
	le := binary.LittleEndian
	version, kind, data := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[72:])
	algorithm := string(b[32:64])
	switch {
	case version != 1 || kind != 1:
		return 0, fmt.Errorf("%w: version %d, type %d", ErrSuperblock, version, kind)
	case algorithm != "sha256"+string(make([]byte, 26)):
		return 0, fmt.Errorf("%w: algorithm %q", ErrSuperblock, algorithm)
	case le.Uint32(b[64:]) != BlockSize || le.Uint32(b[68:]) != BlockSize:
		return 0, fmt.Errorf("%w: blocks of %d and %d bytes", ErrSuperblock, le.Uint32(b[64:]), le.Uint32(b[68:]))
	case le.Uint16(b[80:]) != 0:
		return 0, fmt.Errorf("%w: a salt of %d bytes", ErrSuperblock, le.Uint16(b[80:]))
	case data == 0 || data > maxBlocks:
		return 0, fmt.Errorf("%w: %d blocks", ErrSuperblock, data)
	}
	return int64(data), nil
}
