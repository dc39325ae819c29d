package squashfs

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// origin is what it takes to read a content out of a pack. It does not hold the
// pack's tree.
type origin struct {
	src       File
	fragments []fragment
	extents   []extent // in the order of their places
}

// lend tells the contents of a pack where they are.
func (p *Pack) lend() {
	in := &origin{src: p.src, fragments: p.fragments, extents: p.extents}
	for _, c := range p.contents {
		c.in = in
	}
}

// keptFragments is how many blocks of short files an Unpacker keeps: files of one
// folder mostly stand in a few of them.
const keptFragments = 16

// Unpacker gives back the data of contents that no Writer has taken. It holds a
// few blocks, whatever the size of a content, and is used from one goroutine.
type Unpacker struct {
	compressor  *Compressor
	inflater    inflater
	raw, packed []byte
	kept        []keptFragment // what was used last stands last
}

type keptFragment struct {
	in     *origin
	number uint32
	raw    []byte
}

// NewUnpacker reads packs of the compressor.
func (c *Compressor) NewUnpacker() *Unpacker {
	return &Unpacker{compressor: c, inflater: inflater{compression: c.opts.Compression}}
}

// Copy writes the data of a content to w. A pack that changed since it was written
// is a *Damage, which shows at the end of a content at the latest.
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
		return c.in.damage(fmt.Errorf("%w: a file ends after its block", ErrDamaged))
	}
	_, err = w.Write(raw[c.offset:][:c.size])
	return err
}

func (u *Unpacker) copyBlocks(w io.Writer, c *Content) error {
	at, check := c.start, uint32(0)
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
		check = crc32.Update(check, castagnoli(), u.packed)
		at += uint64(len(u.packed))
		if _, err := w.Write(raw[:size]); err != nil {
			return err
		}
	}
	return c.in.damage(c.in.judge(c.start, check))
}

// fragment gives a block of short files.
func (u *Unpacker) fragment(in *origin, number uint32) ([]byte, error) {
	at := slices.IndexFunc(u.kept, func(k keptFragment) bool { return k.in == in && k.number == number })
	if at >= 0 {
		k := u.kept[at]
		u.kept = append(slices.Delete(u.kept, at, at+1), k)
		return k.raw, nil
	}
	if int64(number) >= int64(len(in.fragments)) {
		return nil, fmt.Errorf("%w: there is no block %d of short files", ErrDamaged, number)
	}
	var raw []byte
	if len(u.kept) == keptFragments {
		raw = u.kept[0].raw
		u.kept = slices.Delete(u.kept, 0, 1)
	}
	f := in.fragments[number]
	raw, err := u.block(in, f.Start, f.Word, raw)
	if err == nil {
		err = in.judge(f.Start, crc32.Checksum(u.packed, castagnoli()))
	}
	if err != nil {
		return nil, err
	}
	u.kept = append(u.kept, keptFragment{in, number, raw})
	return raw, nil
}

// block reads a block into the room of dst, and leaves its packed form in u.packed.
// One of zeros has no packed form, and the length of all blocks.
func (u *Unpacker) block(in *origin, at uint64, word uint32, dst []byte) ([]byte, error) {
	size, room := int(word&^uncompressedBlock), u.compressor.opts.BlockSize
	dst = slices.Grow(dst[:0], room)[:room:room]
	if word == 0 {
		u.packed = u.packed[:0]
		clear(dst)
		return dst, nil
	}
	if size > room {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrDamaged, size)
	}
	u.packed = slices.Grow(u.packed[:0], size)[:size]
	if n, err := in.src.ReadAt(u.packed, int64(at)); n < size {
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

// judge compares what was read from the start of an extent with its sum.
func (in *origin) judge(start uint64, check uint32) error {
	if start == 0 { // zeros alone
		return nil
	}
	n, ok := slices.BinarySearchFunc(in.extents, start, func(e extent, start uint64) int {
		if e.start < start {
			return -1
		}
		return int(min(e.start-start, 1))
	})
	if !ok || in.extents[n].check != check {
		return fmt.Errorf("%w: what starts at %d has another sum", ErrDamaged, start)
	}
	return nil
}

func (in *origin) damage(err error) error {
	if errors.Is(err, ErrDamaged) {
		return &Damage{File: in.src, cause: err}
	}
	return err
}
