package squashfs

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
)

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

// maxCachedFragments is how many fragment blocks an Unpacker caches: the short files of one
// directory are mostly in a few of them.
const maxCachedFragments = 16

// Unpacker reads the data of contents whose pack was not added to a Writer. It holds a few blocks,
// whatever the size of a content. It is used from one goroutine.
type Unpacker struct {
	compressor  *Compressor
	inflater    inflater
	raw, packed []byte
	cache       []cachedFragment // the most recently used is the last
}

type cachedFragment struct {
	in     *packData
	number uint32
	raw    []byte
}

// NewUnpacker returns an Unpacker for packs of the compressor's options.
func (c *Compressor) NewUnpacker() *Unpacker {
	return &Unpacker{compressor: c, inflater: inflater{compression: c.opts.Compression}}
}

// Copy writes the data of a content to w. The error is a *Damage if the pack does not have the bytes
// that were written; it may come after all of the data.
func (u *Unpacker) Copy(w io.Writer, c *Content) error {
	if c == nil || c.size == 0 {
		return nil
	}
	if c.fragment == noFragment {
		return u.copyBlocks(w, c)
	}
	raw, err := u.fragment(c.in, c.fragment)
	if err != nil {
		return c.in.damage(err)
	}
	if int64(c.offset)+c.size > int64(len(raw)) {
		return c.in.damage(fmt.Errorf("%w: a file ends after its fragment block", ErrDamaged))
	}
	_, err = w.Write(raw[c.offset:][:c.size])
	return err
}

func (u *Unpacker) copyBlocks(w io.Writer, c *Content) error {
	at, check := c.start, sha256.New()
	for n, word := range c.blocks {
		size := min(int64(u.compressor.opts.BlockSize), c.size-int64(n)*int64(u.compressor.opts.BlockSize))
		raw, err := u.block(c.in, at, word, u.raw)
		if err == nil && int64(len(raw)) != size && word != 0 {
			err = fmt.Errorf("%w: a block of %d bytes, not %d", ErrDamaged, len(raw), size)
		}
		if err != nil {
			return c.in.damage(err)
		}
		u.raw = raw[:0]
		check.Write(u.packed)
		at += uint64(len(u.packed))
		if _, err := w.Write(raw[:size]); err != nil {
			return err
		}
	}
	return c.in.damage(c.in.verify(c.start, sum(check.Sum(nil))))
}

// fragment reads a fragment block. The result is valid until the next call.
func (u *Unpacker) fragment(in *packData, number uint32) ([]byte, error) {
	at := slices.IndexFunc(u.cache, func(f cachedFragment) bool { return f.in == in && f.number == number })
	if at >= 0 {
		f := u.cache[at]
		u.cache = append(slices.Delete(u.cache, at, at+1), f)
		return f.raw, nil
	}
	if int64(number) >= int64(len(in.fragments)) {
		return nil, fmt.Errorf("%w: fragment block %d of %d", ErrDamaged, number, len(in.fragments))
	}
	var raw []byte
	if len(u.cache) == maxCachedFragments {
		raw = u.cache[0].raw
		u.cache = slices.Delete(u.cache, 0, 1)
	}
	f := in.fragments[number]
	raw, err := u.block(in, f.Start, f.Word, raw)
	if err == nil {
		err = in.verify(f.Start, sha256.Sum256(u.packed))
	}
	if err != nil {
		return nil, err
	}
	u.cache = append(u.cache, cachedFragment{in, number, raw})
	return raw, nil
}

// block reads a block into the capacity of dst, and its compressed form into u.packed. A block of
// zeros has no compressed form, and the full block size.
func (u *Unpacker) block(in *packData, at uint64, word uint32, dst []byte) ([]byte, error) {
	size, blockSize := int(word&^uncompressedBlock), u.compressor.opts.BlockSize
	dst = slices.Grow(dst[:0], blockSize)[:blockSize:blockSize]
	if word == 0 {
		u.packed = u.packed[:0]
		clear(dst)
		return dst, nil
	}
	if size > blockSize {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrDamaged, size)
	}
	u.packed = slices.Grow(u.packed[:0], size)[:size]
	if n, err := in.file.ReadAt(u.packed, int64(in.base+at)); n < size {
		return nil, fmt.Errorf("%w: %d bytes at %d cannot be read: %w", ErrDamaged, size, at, err)
	}
	if word&uncompressedBlock != 0 {
		return append(dst[:0], u.packed...), nil
	}
	raw, err := u.inflater.inflate(dst, u.packed)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return raw, err
}

// verify compares the digest of the extent at start with the one in the index.
func (in *packData) verify(start uint64, got sum) error {
	if start == 0 { // only zeros, which have no extent
		return nil
	}
	n, ok := in.find(start)
	if !ok || in.extents[n].sum != got {
		return fmt.Errorf("%w: the extent at %d has another SHA-256", ErrDamaged, start)
	}
	return nil
}

func (in *packData) damage(err error) error {
	if errors.Is(err, ErrDamaged) {
		return &Damage{File: in.file, cause: err}
	}
	return err
}
