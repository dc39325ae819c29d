package verity

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/opencontainers/go-digest"
)

// perBlock is the number of digests in a block of the tree.
const perBlock = BlockSize / sha256.Size

// hasher computes a tree of data that comes front to back. It holds one block of each level.
type hasher struct {
	// part is a data block that is not complete, open[n] the block of level n that is not.
	part []byte
	open [][]byte
	// data counts the blocks of data.
	data int64
	// emit is called with each complete block of the tree. A level's blocks come in order.
	emit func(level int, block []byte) error
}

// Write takes data.
func (h *hasher) Write(p []byte) (int, error) {
	return len(p), h.take(p)
}

func (h *hasher) take(p []byte) error {
	if len(h.part) > 0 {
		n := min(BlockSize-len(h.part), len(p))
		h.part, p = append(h.part, p[:n]...), p[n:]
		if len(h.part) < BlockSize {
			return nil
		}
		if err := h.block(h.part); err != nil {
			return err
		}
		h.part = h.part[:0]
	}
	for ; len(p) >= BlockSize; p = p[BlockSize:] {
		if err := h.block(p[:BlockSize]); err != nil {
			return err
		}
	}
	h.part = append(h.part, p...)
	return nil
}

// block takes a block of data.
func (h *hasher) block(p []byte) error {
	h.data++
	return h.add(0, sha256.Sum256(p))
}

// add adds a digest to a level.
func (h *hasher) add(level int, sum [sha256.Size]byte) error {
	if level == len(h.open) {
		h.open = append(h.open, make([]byte, 0, BlockSize))
	}
	h.open[level] = append(h.open[level], sum[:]...)
	if len(h.open[level]) < BlockSize {
		return nil
	}
	return h.complete(level)
}

// complete ends the open block of a level, and adds its digest to the level above.
func (h *hasher) complete(level int) error {
	block := h.open[level][:BlockSize]
	clear(block[len(h.open[level]):])
	h.open[level] = h.open[level][:0]
	if err := h.emit(level, block); err != nil {
		return err
	}
	return h.add(level+1, sha256.Sum256(block))
}

// finish completes the tree. The data is not empty, and its last block is complete.
func (h *hasher) finish() (Tree, error) {
	for level := 0; ; level++ {
		// Levels above one with a complete block exist, so the topmost level has none.
		if level == len(h.open)-1 && len(h.open[level]) == sha256.Size {
			return Tree{Root: digest.NewDigestFromBytes(digest.SHA256, h.open[level]), Blocks: h.data}, nil
		}
		if len(h.open[level]) > 0 {
			if err := h.complete(level); err != nil {
				return Tree{}, err
			}
		}
	}
}

// root returns the bytes of the root.
func (t Tree) root() (root [sha256.Size]byte) {
	_, _ = hex.Decode(root[:], []byte(t.Root.Encoded())) // it was made of bytes
	return root
}
