package thin

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/opencontainers/go-digest"
)

// Maker makes the thin form of a delta store.
type Maker struct {
	// Store is the delta store as a whole: all of its layers are made thin.
	Store Store
	// Bases are the stores in which the Sources are looked for, the first one first. Sources are the IDs
	// of layers whose contents may be read: those that every node has that the delta is for.
	Bases   []Store
	Sources []string
	// Cache keeps blocks for other runs; nil keeps none.
	Cache Cache
	// Workers is how many blocks are compressed at the same time, by default as many as there are CPUs, but at most
	// maxWorkers. The result does not depend on it.
	Workers int
	// Progress is called with the number of bytes that were compressed, of all; nil is not called.
	Progress func(done, of int64)
}

// maxWorkers is how many encoders there are by default. Each takes some 80 MiB: tables of 34 MiB for a block and 34 MiB
// for its dictionary, and the buffers. With two of them, pinbox stays below 256 MB.
const maxWorkers = 2

// Cache keeps values by keys, which are digests of all that a value depends on.
type Cache interface {
	// Get returns the value of a key, which the caller does not change; nil if there is none.
	Get(key digest.Digest) ([]byte, error)
	// Put sets the value of a key. The value is only valid until Put returns.
	Put(key digest.Digest, value []byte) error
}

// Data is the file for the data of a thin delta. It is empty at first.
type Data interface {
	io.Writer
	io.ReaderAt
}

// Made is a thin delta that was made.
type Made struct {
	// Index is the content of layout.ThinIndex. DataSize is the size of the data, which is the content of
	// layout.ThinData, in bytes.
	Index    []byte
	DataSize int64
	// Reads are the IDs of the base layers whose contents are read.
	Reads []string
	// Layers are those of the delta, and Largest the files that take the most bytes.
	Layers  []Layer
	Largest []Largest
}

// Make writes the data of a thin delta. It puts all layers together again, as a node does, and compares
// them with their DiffIDs. Equal stores give equal bytes. It ends soon after the context has ended.
func (m *Maker) Make(ctx context.Context, data Data) (*Made, error) {
	c := *m
	c.Store, c.Bases = m.Store.until(ctx), allUntil(ctx, m.Bases)
	if m.Workers <= 0 {
		c.Workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	made, err := c.make(ctx, data)
	if ended := ctx.Err(); ended != nil && err != nil { // no store is damaged
		return nil, ended
	}
	return made, err
}

func (m *Maker) make(ctx context.Context, data Data) (*Made, error) {
	p, err := m.plan(ctx)
	if err != nil {
		return nil, err
	}
	size, err := m.pack(ctx, p, data)
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // of the encoders
	p.count()
	if err := m.compareBlocks(ctx, p); err != nil {
		return nil, err
	}
	content, err := p.index.encode()
	if err != nil {
		return nil, err
	}
	x, err := decodeIndex(content, Limits{})
	if err != nil {
		return nil, fmt.Errorf("%s cannot be a thin delta: %w", m.Store.Name, err)
	}
	if err := m.verifyOnce(ctx, p, x, content, data, size); err != nil {
		return nil, err
	}
	r := Reader{index: x}
	return &Made{Index: content, DataSize: size, Reads: r.Reads(), Layers: r.Layers(), Largest: r.Largest()}, nil
}
