package thin_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/thin"
)

// A block of the cache is taken only for the same contents over the same ones: another base of the same form, and
// blocks of one file, have their own.
func TestCacheOfSimilarContents(t *testing.T) {
	layer := func(seed uint64, n int) thinned.Chain {
		return thinned.Chain{stream(t, sample.File("file", program(seed, 50_000, n)[:50_000]),
			sample.File("new", program(9, 3_200_000, n)))} // two blocks of the same size, and a third one
	}
	next := thinned.Named("next", store(t, nil, layer(1, 2)))
	c := &cache{values: map[digest.Digest][]byte{}}
	for name, seed := range map[string]uint64{"no base": 0, "base": 1, "another base": 2} {
		m := thin.Maker{Store: next}
		if seed > 0 {
			old := layer(seed, 1)
			m.Bases, m.Sources = []thin.Store{thinned.Named(name, store(t, nil, old))}, old.IDs()
		}
		m.Cache = c
		for range 2 { // each time, the layer is compared with its DiffID
			if _, made := makeThin(t, m); len(made.Reads) != len(m.Bases) {
				t.Errorf("%s: got reads of %v, want of all bases", name, made.Reads)
			}
		}
	}
}

// A base with a damaged content that stays as it is gives an error each time, with and without a cache.
func TestMakeOverADamagedBase(t *testing.T) {
	noise := make([]byte, 200_000)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(noise) // never fails
	old := thinned.Chain{stream(t, sample.File("data/noise", string(noise)), sample.File("data/old", "old"))}
	next := thinned.Chain{stream(t, sample.File("data/noise", string(noise)), sample.File("data/new", "new"))}
	base := store(t, nil, old)
	base[bytes.Index(base, noise[:100])] ^= 1
	m := thin.Maker{
		Store: thinned.Named("next", store(t, nil, next)), Bases: []thin.Store{thinned.Named("base", base)},
		Sources: old.IDs(),
	}
	for _, c := range []thin.Cache{nil, &cache{values: map[digest.Digest][]byte{}}} {
		m.Cache = c
		for range 2 {
			_, err := m.Make(t.Context(), &thinned.Data{})
			var damage *thin.BaseError
			if !errors.As(err, &damage) || damage.Path != "data/noise" {
				t.Errorf("cache %v: got %v, want a damaged data/noise", c != nil, err)
			}
		}
	}
}
