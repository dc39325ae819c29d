package squashfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// DecodeIndex reads an index without its sums, which refuse any changed index.
func DecodeIndex(index []byte) { _, _ = decodeIndex(bytes.NewReader(index), "") }

// IndexOf returns the index of a pack without its sums.
func IndexOf(pack []byte) ([]byte, error) {
	foot := pack[len(pack)-packFoot:]
	start := binary.LittleEndian.Uint64(foot)
	unzip, err := zstd.NewReader(bytes.NewReader(pack[start : start+binary.LittleEndian.Uint64(foot[8:])]))
	if err != nil {
		return nil, err
	}
	defer unzip.Close()
	return io.ReadAll(unzip)
}

// ErrTooMany reports that an image has more files than TreeOf describes.
var ErrTooMany = errors.New("too many files")

// TreeOf describes the files of an image in the format of fixtures.Tree, up to limit files.
func TreeOf(r *Reader, limit int) (map[string]string, error) {
	tree := map[string]string{}
	root, err := r.node(r.sb.Root)
	if err != nil {
		return nil, err
	}
	return tree, r.describeAll(tree, ".", root, limit)
}

func (r *Reader) describeAll(tree map[string]string, name string, n *node, limit int) error {
	if len(tree) == limit {
		return ErrTooMany
	}
	about, err := r.describe(n)
	if tree[name] = about; err != nil || n.kind != typeDir {
		return err
	}
	list, err := r.list(n, 0, 0)
	if err != nil {
		return err
	}
	for _, e := range list {
		child, err := r.child(e)
		if err != nil {
			return err
		}
		if err := r.describeAll(tree, path.Join(name, e.name), child, limit); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) describe(n *node) (string, error) {
	about := fmt.Sprintf("mode %o owner %d:%d links %d", n.mode(), r.ids[n.UID], r.ids[n.GID], n.nlink)
	switch n.kind {
	case typeFile:
		sum := sha256.New()
		if _, err := io.Copy(sum, io.LimitReader(&data{r: r, n: n, words: n.blocks}, maxReadFile)); err != nil {
			return "", err
		}
		about += fmt.Sprintf(" size %d content %x", n.size, sum.Sum(nil))
	case typeSymlink:
		return about + " -> " + n.target, nil
	case typeBlock, typeChar:
		about += fmt.Sprintf(" device %x", n.device)
	}
	attrs, _, err := r.xattrSet(n.xattr)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		about += fmt.Sprintf(" %s=%q", name, attrs[name])
	}
	return about, err
}

// FragmentSizes returns the uncompressed sizes of the fragment blocks of an image, in bytes.
func FragmentSizes(r *Reader) (sizes []int, err error) {
	for number := range r.sb.Fragments {
		raw, err := r.fragmentBlock(number)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, len(raw))
	}
	return sizes, nil
}

// Skip leaves a gap of so many bytes before the first pack of an image.
func Skip(w *Writer, gap uint64) { w.pos += gap }

// KeyedExtents counts the extents of a pack that have a keyed sum.
func KeyedExtents(p *Pack) (n int) {
	for _, e := range p.extents {
		if e.keyed != 0 {
			n++
		}
	}
	return n
}
