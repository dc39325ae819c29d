package thin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Reader reads a thin delta.
type Reader struct {
	*index
	store Store
}

// Open reads the index of a thin delta from its store. Another version is pinset.ErrNewer or ErrOlder.
func Open(store Store, limits Limits) (*Reader, error) {
	files, err := store.open()
	if err != nil {
		return nil, err
	}
	content, err := files.ReadFile(layout.ThinIndex)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", store.Name, err)
	}
	x, err := decodeIndex(content, limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", store.Name, layout.ThinIndex, err)
	}
	return &Reader{index: x, store: store}, nil
}

// Layers returns the layers whose tar streams the thin delta gives. It is fast to read them in this
// order.
func (r *Reader) Layers() []Layer {
	var all []Layer
	for _, l := range r.recipes {
		all = append(all, Layer{
			DiffID: l.diffID, Size: l.size,
			Skeleton: l.counts[skeletons], Patched: l.counts[patched], Literal: l.counts[literal], Same: l.counts[same],
		})
	}
	return all
}

// Reads returns the IDs of the layers of bases whose contents are read.
func (r *Reader) Reads() []string { return r.layers }

// Largest returns the files that take the most bytes of the thin delta, the largest first.
func (r *Reader) Largest() []Largest { return r.largest }

// Layer opens the tar stream of a layer. The bases are the stores in which base layers are looked for,
// the first one first. Reading ends with io.EOF only after the whole stream with the DiffID was read:
// a stream with other bytes ends with an error that is ErrDamaged or a *BaseError. Several streams can
// be open at the same time, each for one goroutine; each takes up to 25 MiB. Blocks gets the data blocks that a
// pack of the stream may take as they are; it may be nil.
func (r *Reader) Layer(
	ctx context.Context, diffID digest.Digest, bases []Store, blocks *squashfs.BlockCache,
) (io.ReadCloser, error) {
	for n, recipe := range r.recipes {
		if recipe.diffID == diffID {
			l, err := r.open(ctx, n, bases)
			if err != nil {
				return nil, fmt.Errorf("layer %s: %w", diffID, err)
			}
			l.packed = blocks
			return l, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: it has no layer %s", r.store.Name, ErrDamaged, diffID)
}

func (r *Reader) open(ctx context.Context, n int, stores []Store) (*layerReader, error) {
	files, err := r.store.open()
	if err != nil {
		return nil, err
	}
	data, err := files.Open(layout.ThinData)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.store.Name, err)
	}
	seeker, ok := data.(io.ReadSeeker)
	if !ok {
		return nil, fmt.Errorf("%s: %w: %s is no file", r.store.Name, ErrDamaged, path.Base(layout.ThinData))
	}
	return newLayerReader(ctx, r.index, n, seeker, stores)
}

func newLayerReader(
	ctx context.Context, x *index, n int, data io.ReadSeeker, stores []Store,
) (*layerReader, error) {
	b, err := openBases(allUntil(ctx, stores))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(window),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	l := &layerReader{
		ctx: ctx, x: x, recipe: &x.recipes[n], bases: b, sum: sha256.New(), next: x.recipes[n].first,
		gaps: decoder{rest: x.recipes[n].gaps}, refs: decoder{rest: x.recipes[n].refs},
		blocks: blockReader{ctx: ctx, x: x, data: data, dec: dec, bases: b},
	}
	l.blocks.budget = maxRepeats*l.recipe.size + streams*maxBlock
	l.skeleton.kind = skeletons
	l.skeleton.at, l.skeleton.end = x.solid[skeletons].extent(n)
	return l, nil
}

// blockReader reads blocks of the solid streams. It holds one of each.
type blockReader struct {
	ctx   context.Context
	x     *index
	data  io.ReadSeeker
	dec   *zstd.Decoder
	bases *bases

	held           [streams]heldBlock
	packed, before []byte // a frame, and its dictionary
	budget         int64  // bytes that may be decompressed
}

type heldBlock struct {
	number int // from 1
	raw    []byte
}

// read returns bytes of a stream, from an offset of it to the end of the block or to end. They are valid
// until the next call for the stream.
func (r *blockReader) read(kind int, at, end int64) ([]byte, error) {
	s := &r.x.solid[kind]
	n := s.find(at)
	b := &s.blocks[n]
	held := &r.held[kind]
	if held.number != n+1 {
		held.number = 0
		raw, err := r.load(b, held.raw)
		if err != nil {
			return nil, err
		}
		held.number, held.raw = n+1, raw
	}
	return held.raw[at-b.start : min(end-b.start, int64(b.size))], nil
}

// load decompresses a block into the capacity of dst.
func (r *blockReader) load(b *block, dst []byte) ([]byte, error) {
	if r.budget -= int64(b.size); r.budget < 0 {
		return nil, damaged("its contents are in an order that needs too many blocks")
	}
	if r.budget -= spanCost * int64(b.spans); r.budget < 0 {
		return nil, damaged("its dictionaries have too many spans")
	}
	if err := r.dictionary(b); err != nil {
		return nil, err
	}
	r.packed = resize(r.packed, b.packed)
	_, err := r.data.Seek(b.at, io.SeekStart)
	if err == nil {
		_, err = io.ReadFull(r.data, r.packed)
	}
	if err != nil {
		return nil, damaged("%d bytes at %d of its data: %w", b.packed, b.at, err)
	}
	if cap(dst) < b.size {
		dst = make([]byte, b.size)
	}
	options := []zstd.DOption{zstd.WithDecoderDictDelete()}
	if len(r.before) > 0 {
		options = append(options, zstd.WithDecoderDictRaw(0, r.before))
	}
	if err := r.dec.ResetWithOptions(nil, options...); err != nil {
		return nil, err
	}
	raw, err := r.dec.DecodeAll(r.packed, dst[:0:b.size])
	if err == nil && len(raw) != b.size {
		err = fmt.Errorf("it has %d bytes, want %d", len(raw), b.size)
	}
	if err != nil {
		return nil, damaged("a block at %d of its data: %w", b.at, err) // whatever the bytes of its dictionary
	}
	return raw, nil
}

// dictionary reads the dictionary of a block into r.before.
func (r *blockReader) dictionary(b *block) error {
	r.before, r.bases.rewinds = r.before[:0], 0
	for _, s := range r.x.spans[b.first:][:b.spans] {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		l, err := r.bases.layer(r.x.layers[s.layer])
		if err != nil {
			return err
		}
		from := len(r.before)
		r.before = resize(r.before, from+s.size)
		if err := l.read(s.file, r.before[from:], s.start); err != nil {
			return err
		}
	}
	return nil
}

// check compares a content of a layer with its record.
func (b *bases) check(id string, file int) error {
	l, err := b.layer(id)
	if err != nil {
		return err
	}
	return l.check(file)
}

// resize returns b with so many bytes, and keeps those that it has.
func resize(b []byte, size int) []byte {
	if cap(b) < size {
		b = append(make([]byte, 0, size), b...)
	}
	return b[:size]
}
