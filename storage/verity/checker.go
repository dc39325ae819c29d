package verity

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
)

// What is wrong with a file.
var (
	ErrNoTree  = errors.New("there is no hash tree behind the data")
	ErrDiffers = errors.New("the hash tree is not that of the data")
)

// Checker computes the tree of the data in a file, and compares it with the one behind the data,
// while the file is read front to back.
type Checker struct {
	hasher hasher
	// data is the number of blocks of data, 0 if the size of the file is that of no tree.
	data int64
	// at is the number of bytes that came.
	at, size int64
	// head is the superblock of the file.
	head []byte
	// want are the digests of the levels as computed, got those of the file's, the lowest first.
	want, got []hash.Hash
	sizes     []int64
}

// NewChecker returns a Checker for a file of the size in bytes.
func NewChecker(size int64) *Checker {
	c := &Checker{data: dataBlocks(size), size: size}
	if c.data == 0 {
		return c
	}
	c.sizes = levels(c.data)
	for range c.sizes {
		c.want, c.got = append(c.want, sha256.New()), append(c.got, sha256.New())
	}
	c.hasher.emit = func(level int, block []byte) error {
		c.want[level].Write(block)
		return nil
	}
	return c
}

// Write takes the next bytes of the file. It never fails: Tree has the result.
func (c *Checker) Write(p []byte) (int, error) {
	taken := len(p)
	for c.data > 0 && len(p) > 0 {
		n := min(c.part(), int64(len(p)))
		c.take(p[:n])
		c.at += n
		p = p[n:]
	}
	c.at += int64(len(p))
	return taken, nil
}

// part is how many bytes of the file are left in the part that the next byte belongs to: the data,
// the superblock, a level of the tree, or what is behind it.
func (c *Checker) part() int64 {
	_, end := c.level()
	return end - c.at
}

// level returns the level of the tree that the next byte belongs to, and its end in the file: the
// number of levels for the superblock, and one more for the data; -1 behind the tree.
func (c *Checker) level() (level int, end int64) {
	if end = c.data * BlockSize; c.at < end {
		return len(c.sizes) + 1, end
	}
	if end += BlockSize; c.at < end {
		return len(c.sizes), end
	}
	for level = len(c.sizes) - 1; level >= 0; level-- {
		if end += c.sizes[level] * BlockSize; c.at < end {
			return level, end
		}
	}
	return -1, c.at + BlockSize
}

// take takes bytes of one part.
func (c *Checker) take(p []byte) {
	switch level, _ := c.level(); level {
	case len(c.sizes) + 1:
		_ = c.hasher.take(p) // emit never fails
	case len(c.sizes):
		c.head = append(c.head, p...)
	case -1: // the file is longer than announced
	default:
		c.got[level].Write(p)
	}
}

// Tree returns the tree of the data. It is called once, after all bytes of the file. The error is ErrNoTree if the
// file has none, and ErrDiffers if it has another one.
func (c *Checker) Tree() (Tree, error) {
	if c.at != c.size {
		return Tree{}, fmt.Errorf("verity: %d bytes of %d", c.at, c.size)
	}
	if c.data == 0 || !bytes.HasPrefix(c.head, []byte(magic)) {
		return Tree{}, ErrNoTree
	}
	tree, err := c.hasher.finish()
	if err != nil {
		return Tree{}, err
	}
	if _, err := ParseSuperblock(c.head); err != nil {
		return Tree{}, fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	same := func(level int) bool { return bytes.Equal(c.got[level].Sum(nil), c.want[level].Sum(nil)) }
	head := tree.superblock()
	switch {
	case !bytes.Equal(c.head[:uuidStart], head[:uuidStart]), !bytes.Equal(c.head[uuidEnd:], head[uuidEnd:]):
		return Tree{}, fmt.Errorf("%w: the superblock was changed", ErrDiffers)
	case !bytes.Equal(c.head, head) && len(c.sizes) > 0 && !same(0): // its lowest level has the digests of the data
		return Tree{}, fmt.Errorf("%w: the data was changed", ErrDiffers)
	case !bytes.Equal(c.head, head): // the UUID is made of the root
		return Tree{}, fmt.Errorf("%w: the UUID is not that of the data", ErrDiffers)
	}
	for level := range c.sizes {
		if !same(level) {
			return Tree{}, fmt.Errorf("%w: level %d of the tree was changed", ErrDiffers, level)
		}
	}
	return tree, nil
}
