package verity

import (
	"fmt"
	"io"

	"github.com/pinbox/pinbox/storage/fanout"
)

// Scratch is where a Writer keeps the tree until all data is written: 1/127 of the data.
type Scratch interface {
	io.ReaderAt
	io.WriterAt
}

// Writer writes data, and behind it the superblock and the tree.
type Writer struct {
	to      io.Writer
	both    io.Writer // to, and hasher
	scratch Scratch
	hasher  hasher
	// next is where in the tree the next block of each level is, in blocks.
	next []int64
	// size is how many bytes of data are wanted, written how many came.
	size, written int64
}

// NewWriter returns a Writer for size bytes of data, at least one.
func NewWriter(to io.Writer, size int64, scratch Scratch) *Writer {
	w := &Writer{to: to, scratch: scratch, size: size}
	w.both = fanout.Writer(to, &w.hasher)
	all := levels(blocks(size))
	w.next = make([]int64, len(all)) // the top level comes first, at 0
	for n := len(all) - 2; n >= 0; n-- {
		w.next[n] = w.next[n+1] + all[n+1]
	}
	w.hasher.emit = func(level int, block []byte) error {
		_, err := scratch.WriteAt(block, w.next[level]*BlockSize)
		w.next[level]++
		return err
	}
	return w
}

// Write writes data, and hashes it meanwhile.
func (w *Writer) Write(p []byte) (int, error) {
	if w.written += int64(len(p)); w.written > w.size {
		return 0, fmt.Errorf("verity: more than the %d bytes that were announced", w.size)
	}
	return w.both.Write(p)
}

// Close pads the data to whole blocks, and writes superblock and tree. It closes no file.
func (w *Writer) Close() (Tree, error) {
	if w.written != w.size || w.size < 1 {
		return Tree{}, fmt.Errorf("verity: %d bytes of %d", w.written, w.size)
	}
	if _, err := w.both.Write(make([]byte, blocks(w.size)*BlockSize-w.size)); err != nil {
		return Tree{}, err
	}
	tree, err := w.hasher.finish()
	if err != nil {
		return Tree{}, err
	}
	if _, err := w.to.Write(tree.superblock()); err != nil {
		return Tree{}, err
	}
	size := (total(tree.Blocks) - tree.Blocks - 1) * BlockSize
	_, err = io.CopyBuffer(struct{ io.Writer }{w.to}, io.NewSectionReader(w.scratch, 0, size), make([]byte, 1<<20))
	return tree, err
}
