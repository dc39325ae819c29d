package thin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// encoderID names the encoder, on which the bytes of blocks depend.
const encoderID = "pinbox thin v1 zstd-go-best"

// task is a block that is being made. Tasks are used again, since their buffers are large.
type task struct {
	raw, dictionary, packed []byte

	key    digest.Digest
	cached bool
	err    error
	done   chan struct{}
}

// pack makes all blocks, and writes them. It returns their size in bytes.
func (m *Maker) pack(ctx context.Context, p *plan, data io.Writer) (size int64, err error) {
	debug.FreeOSMemory() // of the plan, and of the packing of the store
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	work, ordered, free := make(chan *task), make(chan *task, m.Workers), make(chan *task, m.Workers)
	for range m.Workers {
		wg.Go(func() { m.compress(work) })
		free <- &task{}
	}
	var failed error
	wg.Go(func() {
		defer close(work)
		defer close(ordered)
		failed = m.read(ctx, p, free, work, ordered)
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
			if !t.cached {
				// Nearly all of the memory are buffers and tables without pointers, so that a collection is fast. By
				// default, garbage would double the memory.
				runtime.GC()
			}
			free <- t
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
func (m *Maker) read(ctx context.Context, p *plan, free <-chan *task, work, ordered chan<- *task) error {
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
			var t *task
			select {
			case t = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			t.key, t.done = p.key(j), make(chan struct{})
			err := m.lookUp(t)
			if err == nil && !t.cached {
				err = p.load(t, j, news, olds)
			}
			if err != nil {
				return err
			}
			ordered <- t // it has room for all tasks
			if t.cached {
				close(t.done)
			} else {
				work <- t
			}
		}
	}
	return nil
}

// lookUp takes a block from the cache, if that has it.
func (m *Maker) lookUp(t *task) error {
	if m.Cache == nil {
		return nil
	}
	packed, err := m.Cache.Get(t.key)
	t.packed = append(t.packed[:0], packed...)
	t.cached = packed != nil
	return err
}

// load reads the contents of a block, and its dictionary.
func (p *plan) load(t *task, j job, news, olds *bases) error {
	if t.raw == nil {
		t.raw, t.dictionary = make([]byte, 0, maxBlock), make([]byte, 0, maxDictionary)
	}
	t.raw, t.dictionary = t.raw[:0], t.dictionary[:0]
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
		t.dictionary = t.dictionary[:from+s.size]
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
	var enc *zstd.Encoder
	dictionary := false // enc has had one
	for t := range work {
		// The library makes new tables for the first block with a dictionary, and for the first one without: those
		// before are freed first.
		if has := len(t.dictionary) > 0; enc == nil || has != dictionary {
			dictionary = has
			runtime.GC() // of enc, too, which is not used any more
			enc, t.err = newEncoder()
		}
		if t.err == nil {
			t.err = t.compress(enc)
		}
		if t.err == nil && m.Cache != nil {
			t.err = m.Cache.Put(t.key, t.packed)
		}
		close(t.done)
	}
}

// newEncoder returns an encoder of streams: Encoder.EncodeAll would need a second encoder, which has tables of 68 MiB.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
}

func (t *task) compress(enc *zstd.Encoder) error {
	option := zstd.WithEncoderDictDelete()
	if len(t.dictionary) > 0 {
		option = zstd.WithEncoderDictRaw(0, t.dictionary)
	}
	t.packed = t.packed[:0]
	if err := enc.ResetWithOptions(t, option); err != nil {
		return err
	}
	_, err := enc.Write(t.raw)
	return errors.Join(err, enc.Close())
}

// Write takes bytes of the frame.
func (t *task) Write(p []byte) (int, error) {
	t.packed = append(t.packed, p...)
	return len(p), nil
}

// maxReaders is how many layers are put together at the same time. Each reader takes up to 25 MiB, which the
// encoders do not need any more.
const maxReaders = 6

// verify puts all layers together.
func (m *Maker) verify(ctx context.Context, p *plan, x *index, data io.ReaderAt, size int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), maxReaders))
	for n := range x.recipes {
		group.Go(func() error {
			l, err := newLayerReader(ctx, x, n, io.NewSectionReader(data, 0, size), m.Bases)
			if err != nil {
				return err
			}
			defer l.Close()
			if _, err = io.Copy(io.Discard, l); err != nil {
				return fmt.Errorf("%s: %w", p.layers[n].ID, err)
			}
			return nil
		})
	}
	return group.Wait()
}
