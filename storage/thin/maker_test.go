package thin_test

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/thin"
)

// cache keeps values in memory.
type cache struct {
	sync.Mutex
	values map[digest.Digest][]byte
	puts   int
}

func (c *cache) Get(key digest.Digest) ([]byte, error) {
	c.Lock()
	defer c.Unlock()
	return c.values[key], nil
}

func (c *cache) Put(key digest.Digest, value []byte) error {
	c.Lock()
	defer c.Unlock()
	c.values[key] = slices.Clone(value)
	c.puts++
	return nil
}

// The bytes depend neither on the number of workers nor on the cache. A block of the cache costs no collection of
// garbage, which would be most of the time of a second run.
func TestBytesDoNotDependOnWorkersOrCache(t *testing.T) {
	p := makePair(t)
	c := &cache{values: map[digest.Digest][]byte{}}
	for _, tc := range []struct {
		name    string
		workers int
		cache   thin.Cache
	}{{"one worker", 1, nil}, {"five workers", 5, nil}, {"empty cache", 2, c}, {"full cache", 3, c}} {
		t.Run(tc.name, func(t *testing.T) {
			puts := c.puts
			m := p.maker
			m.Workers, m.Cache = tc.workers, tc.cache
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			delta, _ := makeThin(t, m)
			runtime.ReadMemStats(&after)
			if !bytes.Equal(delta, p.delta) {
				t.Errorf("got %d other bytes, want the %d of the first run", len(delta), len(p.delta))
			}
			collections := after.NumForcedGC - before.NumForcedGC // one for each block, and before and after them
			switch {
			case tc.name == "full cache" && (c.puts > puts || collections > 3):
				t.Errorf("got %d new values and %d forced collections, want none, and at most 3", c.puts-puts, collections)
			case tc.name == "empty cache" && collections < 8:
				t.Errorf("got %d forced collections, want at least 8", collections)
			}
		})
	}
}

// The speed of putting streams together, in bytes of them.
func BenchmarkLayer(b *testing.B) {
	p := makePair(b)
	r, err := thin.Open(thinned.Named("delta", p.delta), thin.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	bases := []thin.Store{thinned.Named("base", p.base)}
	l := r.Layers()[0]
	b.SetBytes(l.Size)
	for b.Loop() {
		s, err := r.Layer(b.Context(), l.DiffID, bases, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, s); err != nil {
			b.Fatal(err)
		}
		_ = s.Close()
	}
}
