package thin

import (
	"encoding/hex"

	"github.com/klauspost/compress/zstd"
)

// head begins an index.
const head = "pinbox thin v1\n\x00"

// encode returns the bytes of the index.
func (x *index) encode() ([]byte, error) {
	var c column
	c.add(int64(len(x.layers)))
	for _, id := range x.layers {
		c = appendHex(c, id)
	}
	for _, packed := range x.packed {
		n := int64(0)
		if packed {
			n = 1
		}
		c.add(n)
	}
	for _, s := range x.solid {
		x.encodeSolid(&c, s)
	}
	x.encodeRuns(&c)
	c.add(int64(len(x.recipes)))
	for _, r := range x.recipes {
		c = appendHex(c, r.diffID.Encoded())
		c.add(r.size)
		for _, n := range r.counts {
			c.add(n.Files)
			c.add(n.Size)
			c.add(n.Packed)
		}
		c.add(r.contents)
		c = append(append(c, r.gaps...), r.refs...)
	}
	c.add(int64(len(x.largest)))
	for _, l := range x.largest {
		c = appendHex(c, l.DiffID.Encoded())
		c.add(l.Size)
		c.add(l.Packed)
		c.addString(l.Path)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return enc.EncodeAll(c, []byte(head)), nil
}

func appendHex(c column, digits string) column {
	b, err := hex.AppendDecode(c, []byte(digits))
	if err != nil {
		panic("hexadecimal digits of an ID: " + err.Error()) // records of a store were checked
	}
	return b
}

// encodeSolid writes the sizes of the contents, and then the blocks column by column, which compresses
// better.
func (x *index) encodeSolid(c *column, s solid) {
	c.add(int64(len(s.ends)))
	before := int64(0)
	for _, end := range s.ends {
		c.add(end - before)
		before = end
	}
	c.add(int64(len(s.blocks)))
	for _, b := range s.blocks {
		c.add(int64(b.size) - 1)
	}
	for _, b := range s.blocks {
		c.add(int64(b.packed))
	}
	var layers, files, starts, sizes column
	last := source{}
	for _, b := range s.blocks {
		c.add(int64(b.spans))
		for _, sp := range x.spans[b.first:][:b.spans] {
			layers.add(int64(sp.layer))
			files.addDiff(int64(sp.file - last.file))
			starts.add(sp.start)
			sizes.add(int64(sp.size))
			last = sp.source
		}
	}
	for _, col := range []column{layers, files, starts, sizes} {
		*c = append(*c, col...)
	}
}

func (x *index) encodeRuns(c *column) {
	c.add(int64(len(x.runs)))
	for n, r := range x.runs {
		c.add(x.length(n)<<2 | int64(r.kind))
	}
	var layers, files column
	last := source{}
	for n, r := range x.runs {
		if r.kind == same {
			layers.add(int64(r.of.layer))
			files.addDiff(int64(r.of.file - last.file))
			last.file = r.of.file + int(x.length(n))
		}
	}
	*c = append(append(*c, layers...), files...)
}
