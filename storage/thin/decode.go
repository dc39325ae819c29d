package thin

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
)

// decodeIndex reads and checks an index. What it holds has at most a few times the size of the index.
func decodeIndex(content []byte, limits Limits) (*index, error) {
	if len(content) < len(head) || string(content[:len(head)]) != head {
		return nil, checkHead(content)
	}
	raw, err := unzip(content[len(head):], maxIndex)
	if err != nil {
		return nil, damaged("its index: %w", err)
	}
	x, d := &index{}, &decoder{rest: raw}
	limits.Size = cmp.Or(limits.Size, 128<<30)
	x.decode(d, limits)
	if d.err == nil && len(d.rest) > 0 {
		d.fail(fmt.Errorf("%d bytes follow its index", len(d.rest)))
	}
	if d.err != nil && !errors.Is(d.err, ErrDamaged) {
		d.err = damaged("%w", d.err)
	}
	return x, d.err
}

func checkHead(content []byte) error {
	text, _, _ := strings.Cut(string(content[:min(len(content), 32)]), "\n")
	var version int
	if _, err := fmt.Sscanf(text, "pinbox thin v%d", &version); err == nil && version > 0 && version != Version {
		return fmt.Errorf("thin delta of %w", pinset.CheckVersion(version, Version))
	}
	return damaged("its index begins with %q", text)
}

// unzip decompresses one frame of at most limit bytes.
func unzip(packed []byte, limit uint64) ([]byte, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit),
		zstd.WithDecoderMaxWindow(limit))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return dec.DecodeAll(packed, nil)
}

func (x *index) decode(d *decoder, limits Limits) {
	for range d.number("base layers", maxLayers) {
		if d.err != nil {
			return
		}
		x.layers = append(x.layers, hex.EncodeToString(d.bytes(32)))
	}
	for range x.layers {
		x.packed = append(x.packed, d.number("packed", 1) == 1)
	}
	at := int64(0)
	for kind := range x.solid {
		at = x.decodeSolid(d, &x.solid[kind], at)
	}
	x.decodeRuns(d)
	next := int64(0)
	for n := range d.number("layers", maxLayers) {
		if d.err != nil {
			return
		}
		next = x.decodeRecipe(d, int(n), next, limits)
	}
	switch {
	case d.err != nil:
	case next != x.contents:
		d.fail(fmt.Errorf("its layers have %d contents, want %d", next, x.contents))
	case len(x.recipes) != len(x.solid[skeletons].ends):
		d.fail(fmt.Errorf("%d skeletons of %d layers", len(x.solid[skeletons].ends), len(x.recipes)))
	}
	for range d.number("largest files", maxListed) {
		if d.err != nil {
			return
		}
		l := Largest{DiffID: d.digest(), Size: d.number("size", math.MaxInt64), Packed: d.number("size", math.MaxInt64)}
		l.Path = string(d.bytes(int(d.number("path", 4096))))
		x.largest = append(x.largest, l)
	}
}

func (d *decoder) digest() digest.Digest {
	return digest.NewDigestFromBytes(digest.SHA256, d.bytes(32))
}

// decodeSolid reads a solid stream whose first block is at an offset of the data. It returns the end of
// the last one.
func (x *index) decodeSolid(d *decoder, s *solid, at int64) int64 {
	s.ends = make([]int64, 0, d.rows("contents", maxRows))
	end := int64(0)
	for range cap(s.ends) {
		end += d.number("size of a content", math.MaxInt64-end)
		s.ends = append(s.ends, end)
	}
	s.blocks = make([]block, d.rows("blocks", maxBlocks))
	start := int64(0)
	for n := range s.blocks {
		b := &s.blocks[n]
		b.start, b.size = start, 1+int(d.number("size of a block", maxBlock-1))
		start += int64(b.size)
	}
	if d.err == nil && start != end {
		d.fail(fmt.Errorf("blocks of %d bytes for contents of %d", start, end))
	}
	for n := range s.blocks {
		b := &s.blocks[n]
		b.at, b.packed = at, int(d.number("packed size of a block", maxBlock+maxBlock/64))
		at += int64(b.packed)
	}
	first := len(x.spans)
	for n := range s.blocks {
		b := &s.blocks[n]
		b.first, b.spans = len(x.spans), int(d.number("spans", int64(min(maxRows-len(x.spans), maxSpans))))
		if d.err == nil && b.spans > len(d.rest) {
			d.fail(errShort)
		}
		if d.err != nil {
			return at
		}
		x.spans = append(x.spans, make([]span, b.spans)...)
	}
	x.decodeSpans(d, x.spans[first:])
	for _, b := range s.blocks {
		size := 0
		for _, sp := range x.spans[b.first:][:b.spans] {
			if size += sp.size; size > maxDictionary {
				d.fail(fmt.Errorf("a dictionary of more than %s", bytesize.Format(maxDictionary)))
			}
		}
	}
	return at
}

// rows reads the number of rows of a table, each of which takes a byte or more.
func (d *decoder) rows(what string, limit int64) int64 {
	n := d.number(what, limit)
	if n > int64(len(d.rest)) {
		d.fail(errShort)
		return 0
	}
	return n
}

func (x *index) decodeSpans(d *decoder, spans []span) {
	for n := range spans {
		spans[n].layer = int(d.number("layer of a span", int64(len(x.layers))-1))
	}
	last := int64(0)
	for n := range spans {
		last = d.diff("file of a span", last, math.MaxInt32)
		spans[n].file = int(last)
	}
	for n := range spans {
		spans[n].start = d.number("start of a span", math.MaxInt64-maxDictionary)
	}
	for n := range spans {
		if spans[n].size = int(d.number("size of a span", maxDictionary)); d.err == nil && spans[n].size == 0 {
			d.fail(errors.New("a span of no bytes"))
		}
	}
}

func (x *index) decodeRuns(d *decoder) {
	x.runs = make([]run, d.rows("runs", maxRows))
	var rows [streams]int
	first := int64(0)
	for n := range x.runs {
		v := d.number("run", math.MaxInt32)
		r := &x.runs[n]
		r.first, r.kind = first, int(v&3)
		count := v >> 2
		if first += count; d.err == nil && (count == 0 || r.kind == skeletons) {
			d.fail(fmt.Errorf("a run of %d contents of kind %d", count, r.kind))
		}
		if r.kind != same {
			r.row = rows[r.kind]
			rows[r.kind] += int(count)
		}
	}
	x.contents = first
	for kind := patched; kind < streams && d.err == nil; kind++ {
		if got, want := rows[kind], len(x.solid[kind].ends); got != want {
			d.fail(fmt.Errorf("runs of %d contents of kind %d, want %d", got, kind, want))
		}
	}
	for n := range x.runs {
		if x.runs[n].kind == same {
			x.runs[n].of.layer = int(d.number("layer of a run", int64(len(x.layers))-1))
		}
	}
	last := int64(0)
	for n := range x.runs {
		r := &x.runs[n]
		if r.kind != same {
			continue
		}
		r.of.file = int(d.diff("file of a run", last, math.MaxInt32))
		last = int64(r.of.file)
		last += x.length(n)
		if d.err == nil && r.of.file == 0 {
			d.fail(errors.New("a content that is a skeleton"))
		}
	}
}

// decodeRecipe reads a recipe whose first new content has the number next, and returns the next one.
func (x *index) decodeRecipe(d *decoder, n int, next int64, limits Limits) int64 {
	r := recipe{diffID: d.digest(), size: d.number("size of a layer", math.MaxInt64), first: next, row: n}
	if d.err == nil && r.size > limits.Size {
		d.fail(damaged("layer %s: its tar stream has %s, the limit is %s", r.diffID, bytesize.Format(r.size),
			bytesize.Format(limits.Size)))
	}
	for kind := range r.counts {
		c := &r.counts[kind]
		c.Files, c.Size = d.number("files", math.MaxInt64), d.number("size", math.MaxInt64)
		c.Packed = d.number("size", math.MaxInt64)
	}
	r.contents = d.number("contents of a layer", int64(len(d.rest)))
	if n >= len(x.solid[skeletons].ends) {
		d.fail(fmt.Errorf("%d skeletons", n))
		return next
	}
	start, end := x.solid[skeletons].extent(n)
	left := r.size - (end - start) // for contents
	skeleton := end - start
	rest := d.rest
	for range r.contents {
		skeleton -= d.number("gap", skeleton)
	}
	r.gaps = rest[:len(rest)-len(d.rest)]
	rest = d.rest
	for range r.contents {
		number := next
		if back := d.number("content", next); back > 0 {
			number -= back
		} else if next++; next > x.contents {
			d.fail(fmt.Errorf("more than %d contents", x.contents))
		}
		if d.err != nil {
			return next
		}
		if kind, _, row := x.content(number); kind != same {
			from, to := x.solid[kind].extent(row)
			left -= to - from
		}
		if left < 0 {
			d.fail(damaged("layer %s: its contents have more than its %d bytes", r.diffID, r.size))
			return next
		}
	}
	r.refs = rest[:len(rest)-len(d.rest)]
	if d.err == nil && left < 0 {
		d.fail(damaged("layer %s: its skeleton has more than its %d bytes", r.diffID, r.size))
	}
	x.recipes = append(x.recipes, r)
	return next
}
