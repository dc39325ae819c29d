package thin

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// UnpackIndex returns the tables of an index.
func UnpackIndex(index []byte) ([]byte, error) { return unzip(index[len(head):], maxIndex) }

// PackIndex returns an index with tables.
func PackIndex(tables []byte) ([]byte, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return enc.EncodeAll(tables, []byte(head)), nil
}

// ReadAll reads all layers of a thin delta, and calls layer with each stream that is read without an error.
func ReadAll(
	ctx context.Context, index, data []byte, limits Limits, layer func(Layer, []byte), bases ...Store,
) error {
	x, err := decodeIndex(index, limits)
	if err != nil {
		return err
	}
	r := Reader{index: x}
	for n, l := range r.Layers() {
		s, err := newLayerReader(ctx, x, n, bytes.NewReader(data), bases)
		if err != nil {
			return err
		}
		stream, err := io.ReadAll(s)
		_ = s.Close()
		if err != nil {
			return err
		}
		layer(l, stream)
	}
	return nil
}

// Change decodes an index, changes it, and encodes it again.
func Change(index []byte, change func(*Tables)) ([]byte, error) {
	x, err := decodeIndex(index, Limits{})
	if err != nil {
		return nil, err
	}
	change(&Tables{x})
	return x.encode()
}

// Tables are those of an index, to be changed.
type Tables struct{ x *index }

// Claim sets the size of the first layer, which its contents do not have.
func (t *Tables) Claim(size int64) { t.x.recipes[0].size = size }

// Lengthen adds to the size of the first literal content and of its block, but not to its frame.
func (t *Tables) Lengthen(n int) {
	s := &t.x.solid[literal]
	for i := range s.ends {
		s.ends[i] += int64(n)
	}
	s.blocks[0].size += n
	t.x.recipes[0].size += int64(n)
}

// File sets the number of the first content that is read from a base.
func (t *Tables) File(number int) {
	for n := range t.x.runs {
		if t.x.runs[n].kind == same {
			t.x.runs[n].of.file = number
			return
		}
	}
}

// Span lets the first dictionary start behind the end of its content.
func (t *Tables) Span(start int64) { t.x.spans[0].start = start }

// Dictionary repeats the dictionary of the first patched block, until it has more than so many bytes.
func (t *Tables) Dictionary(more int) {
	b := &t.x.solid[patched].blocks[0]
	one := t.x.spans[b.first]
	b.first, b.spans = len(t.x.spans), more/one.size+1
	for range b.spans {
		t.x.spans = append(t.x.spans, one)
	}
}

// GoBack replaces the dictionary of the first patched block by n spans of one byte of a skeleton, in turn at an
// offset and at its start.
func (t *Tables) GoBack(n int, at int64) {
	b := &t.x.solid[patched].blocks[0]
	layer := t.x.spans[b.first].layer
	b.first, b.spans = len(t.x.spans), n
	for i := range n {
		t.x.spans = append(t.x.spans, span{source: source{layer, 0}, start: int64((i+1)%2) * at, size: 1})
	}
}

// Empty gives the first span no bytes.
func (t *Tables) Empty() { t.x.spans[0].size = 0 }

// List repeats a largest file.
func (t *Tables) List(n int) {
	t.x.largest = slices.Repeat([]Largest{{DiffID: t.x.recipes[0].diffID}}, n)
}

// Literal returns where the first block of literals is in the data.
func (t *Tables) Literal() (at int64, packed int) {
	b := t.x.solid[literal].blocks[0]
	return b.at, b.packed
}

// SetLiteral sets the compressed size of the first block of literals, which is the last one of all.
func (t *Tables) SetLiteral(packed int) { t.x.solid[literal].blocks[0].packed = packed }

// Packed returns whether the data blocks of a base layer can be taken as they are.
func (t *Tables) Packed(layer int) *bool { return &t.x.packed[layer] }

// Alternate adds n pairs of the first and the last literal content to the end of the last layer.
func (t *Tables) Alternate(n int) {
	r := &t.x.recipes[len(t.x.recipes)-1]
	r.gaps, r.refs = slices.Clone(r.gaps), slices.Clone(r.refs) // of one slice
	last := t.x.runs[len(t.x.runs)-1]
	first := t.x.runs[slices.IndexFunc(t.x.runs, func(r run) bool { return r.kind == literal })]
	s := &t.x.solid[literal]
	for range n {
		for _, number := range []int64{first.first, last.first + t.x.length(len(t.x.runs)-1) - 1} {
			_, _, row := t.x.content(number)
			start, end := s.extent(row)
			r.gaps.add(0)
			r.refs.add(t.x.contents - number)
			r.contents++
			r.size += end - start
		}
	}
}
