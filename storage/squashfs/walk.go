package squashfs

import (
	"context"
	"encoding/binary"
	"io/fs"
	"path"
)

// Entry is a file below a directory.
type Entry struct {
	// Path is relative to the directory.
	Path string
	Mode fs.FileMode
	// Whiteout means that overlayfs hides a file of a lower layer: a device with the number 0.
	Whiteout bool
	// Size of a regular file, in bytes.
	Size int64
	// Extents are the runs of blocks and the short contents of a regular file. Files with equal contents may share
	// them.
	Extents []Extent
}

// Extent is what a regular file takes of an image.
type Extent struct {
	// Key is equal for equal extents of an image.
	Key uint64
	// Stored is the length in bytes, after compression. That of a short content is its share of the fragment block.
	Stored int64
}

const maxPath = 4096 // PATH_MAX

// walk is one walk through a directory.
type walk struct {
	r     *Reader
	visit func(Entry) error
	// dirs are the directories of the image that were visited: no image has one twice.
	dirs map[uint64]bool
	// fragments are the fragment blocks of the directory's files, by their numbers.
	fragments map[uint32]fragmentUse
}

// fragmentUse is the length of a fragment block: compressed, and of all that is in use before.
type fragmentUse struct{ packed, used int64 }

// Walk visits all files below a directory of an image in the order of their names, each directory before its files.
// It ends with the first error of visit, and of the context.
//
// It walks twice: how long a fragment block is before it is compressed, only its files tell.
func Walk(ctx context.Context, r *Reader, dir string, visit func(Entry) error) error {
	n, err := r.walk("walk", dir)
	if err != nil {
		return err
	}
	w := walk{r: r, visit: func(Entry) error { return nil }, fragments: map[uint32]fragmentUse{}}
	for range 2 {
		w.dirs = map[uint64]bool{}
		if err := w.dir(ctx, n, ""); err != nil {
			return err
		}
		w.visit = visit
	}
	return nil
}

func (w *walk) dir(ctx context.Context, n *node, below string) error {
	if w.dirs[n.ref] || len(below) > maxPath {
		return damaged("directory %q is listed twice, or too deep", below)
	}
	w.dirs[n.ref] = true
	if err := ctx.Err(); err != nil {
		return err
	}
	all, err := w.r.list(n, 0, 0)
	if err != nil {
		return err
	}
	for _, e := range all {
		child, err := w.r.child(e)
		if err != nil {
			return err
		}
		entry := Entry{
			Path: path.Join(below, e.name), Mode: fileMode(child.mode()), Whiteout: child.kind == typeChar && child.device == 0,
		}
		if child.kind == typeFile {
			entry.Size = int64(child.size)
			if entry.Extents, err = w.extents(child); err != nil {
				return err
			}
		}
		if err := w.visit(entry); err != nil {
			return err
		}
		if child.kind != typeDir {
			continue
		}
		if err := w.dir(ctx, child, entry.Path); err != nil {
			return err
		}
	}
	return nil
}

// extents returns those of a regular file.
func (w *walk) extents(n *node) (all []Extent, err error) {
	blockSize := uint64(w.r.sb.BlockSize)
	var stored int64
	words, word := n.blocks, make([]byte, 4)
	for range n.blockCount(blockSize) {
		if err := words.read(word); err != nil {
			return nil, err
		}
		stored += int64(binary.LittleEndian.Uint32(word) &^ uncompressedBlock)
	}
	if stored > 0 {
		all = append(all, Extent{n.start << 1, stored})
	}
	if n.fragment == noFragment {
		return all, nil
	}
	use, ok := w.fragments[n.fragment]
	if !ok {
		f, err := w.r.fragmentEntry(n.fragment)
		if err != nil {
			return nil, err
		}
		use.packed = int64(f.Word &^ uncompressedBlock)
	}
	tail := int64(n.size % blockSize)
	use.used = max(use.used, int64(n.offset)+tail, 1)
	w.fragments[n.fragment] = use
	return append(all, Extent{uint64(n.fragment)<<32 | uint64(n.offset)<<1 | 1, tail * use.packed / use.used}), nil
}
