package thin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// encoderID names the encoder, on which the bytes of blocks depend.
const encoderID = "pinbox thin v1 zstd-go-best"

// task is a block that is being made.
type task struct {
	raw, dictionary []byte
	key             digest.Digest
	packed          []byte
	err             error
	done            chan struct{}
}

// pack makes all blocks, and writes them. It returns their size in bytes.
func (m *Maker) pack(ctx context.Context, p *plan, data io.Writer) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	work, ordered := make(chan *task), make(chan *task, m.Workers)
	for range m.Workers {
		wg.Go(func() { m.compress(work) })
	}
	var failed error
	wg.Go(func() {
		defer close(work)
		defer close(ordered)
		failed = m.read(ctx, p, work, ordered)
	})
	of := int64(0)
	for kind := range p.jobs {
		of += p.solid[kind].size()
	}
	done := int64(0)
	for kind := range p.jobs {
		for _, j := range p.jobs[kind] {
			t := <-ordered
			if t == nil {
				return 0, failed
			}
			<-t.done
			if t.err == nil {
				_, t.err = data.Write(t.packed)
			}
			if t.err != nil {
				cancel()
				for range ordered {
				}
				return 0, t.err
			}
			p.setBlock(j, len(t.packed), size)
			size += int64(len(t.packed))
			if done += int64(j.size); m.Progress != nil {
				m.Progress(done, of)
			}
		}
	}
	return size, nil
}

// setBlock adds a block to the index.
func (p *plan) setBlock(j job, packed int, at int64) {
	s := &p.solid[j.kind]
	b := block{size: j.size, at: at, packed: packed, first: len(p.spans), spans: len(j.spans)}
	if n := len(s.blocks); n > 0 {
		b.start = s.blocks[n-1].start + int64(s.blocks[n-1].size)
	}
	s.blocks = append(s.blocks, b)
	p.spans = append(p.spans, j.spans...)
}

// read reads the contents of all blocks in their order.
func (m *Maker) read(ctx context.Context, p *plan, work, ordered chan<- *task) error {
	news, err := openBases([]Store{m.Store})
	if err != nil {
		return err
	}
	defer news.close()
	olds, err := openBases(m.Bases)
	if err != nil {
		return err
	}
	defer olds.close()
	for kind := range p.jobs {
		for _, j := range p.jobs[kind] {
			t := &task{done: make(chan struct{}), key: p.key(j)}
			if m.Cache != nil {
				t.packed, t.err = m.Cache.Get(t.key)
			}
			cached := t.packed != nil || t.err != nil
			if !cached {
				if err := p.load(t, j, news, olds); err != nil {
					return err
				}
			}
			select {
			case ordered <- t:
			case <-ctx.Done():
				return ctx.Err()
			}
			if cached {
				close(t.done)
				continue
			}
			work <- t
		}
	}
	return nil
}

// load reads the contents of a block, and its dictionary.
func (p *plan) load(t *task, j job, news, olds *bases) error {
	t.raw = make([]byte, 0, j.size)
	for _, c := range j.pieces {
		l, err := news.layer(p.layers[c.layer].ID)
		if err != nil {
			return err
		}
		from := len(t.raw)
		t.raw = t.raw[:from+c.size]
		if err := l.read(c.file, t.raw[from:], c.start); err != nil {
			return err
		}
	}
	for _, s := range j.spans {
		l, err := olds.layer(p.index.layers[s.layer])
		if err != nil {
			return err
		}
		if err := p.checkModel(l, s.source); err != nil {
			return err
		}
		from := len(t.dictionary)
		t.dictionary = resize(t.dictionary, from+s.size)
		if err := l.read(s.file, t.dictionary[from:], s.start); err != nil {
			return err
		}
	}
	return nil
}

// key returns the key of a block. A content is identified by its layer's DiffID and its number in it.
func (p *plan) key(j job) digest.Digest {
	h := sha256.New()
	_, _ = io.WriteString(h, encoderID)
	number := func(all ...int64) {
		var b [8]byte
		for _, n := range all {
			binary.LittleEndian.PutUint64(b[:], uint64(n))
			h.Write(b[:])
		}
	}
	number(int64(len(j.pieces)))
	for _, c := range j.pieces {
		_, _ = io.WriteString(h, p.layers[c.layer].UncompressedDigest.String())
		number(int64(c.file), c.start, int64(c.size))
	}
	for _, s := range j.spans {
		_, _ = io.WriteString(h, p.bases[s.layer].diffID.String())
		number(int64(s.file), s.start, int64(s.size))
	}
	return digest.NewDigest(digest.SHA256, h)
}

// compress compresses blocks.
func (m *Maker) compress(work <-chan *task) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(2*maxBlock), zstd.WithSingleSegment(true),
		zstd.WithLowerEncoderMem(true))
	for t := range work {
		if t.err = err; err == nil {
			t.err = t.compress(enc)
		}
		if t.err == nil && m.Cache != nil {
			t.err = m.Cache.Put(t.key, t.packed)
		}
		close(t.done)
	}
}

func (t *task) compress(enc *zstd.Encoder) error {
	option := zstd.WithEncoderDictDelete()
	if len(t.dictionary) > 0 {
		option = zstd.WithEncoderDictRaw(0, t.dictionary)
	}
	if err := enc.ResetWithOptions(nil, option); err != nil {
		return err
	}
	t.packed = enc.EncodeAll(t.raw, nil)
	t.raw, t.dictionary = nil, nil
	return nil
}

// verify puts all layers together.
func (m *Maker) verify(ctx context.Context, p *plan, x *index, data io.ReaderAt, size int64) error {
	for n := range x.recipes {
		l, err := newLayerReader(ctx, x, n, io.NewSectionReader(data, 0, size), m.Bases)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, l)
		_ = l.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", p.layers[n].ID, err)
		}
	}
	return nil
}
