package storage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// What is fetched before all images are resolved is limited: the space for all is not known yet.
func TestEarlyFetchIsLimited(t *testing.T) {
	for name, test := range map[string]struct {
		sizes []int64
		want  int // layers
	}{
		"small layers":             {[]int64{1 << 20, 1 << 20}, 2},
		"as much as the limit":     {[]int64{earlyBytes / 2, earlyBytes / 2, 1}, 2},
		"a large one among others": {[]int64{1 << 20, earlyBytes, 1 << 20}, 2},
		"an unknown size":          {[]int64{-1, 1}, 1},
		"a size that overflows":    {[]int64{1, math.MaxInt64, 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fetcher{jobs: map[content]*job{}}
			f.more = sync.NewCond(&f.mu)
			for i, size := range test.sizes {
				l := layerOf(i, size)
				f.want(Resolved{LockedImage: pinset.LockedImage{Layers: []*pinset.LockedLayer{l, l}}})
			}
			if got := len(f.queue); got != test.want {
				t.Errorf("got %d layers, want %d", got, test.want)
			}
		})
	}
}

func layerOf(i int, size int64) *pinset.LockedLayer {
	d := digest.FromString(fmt.Sprint(i))
	return &pinset.LockedLayer{Digest: d, DiffID: d, Size: size}
}

// A bug was that more connections were released than the fetcher of an interrupted build had taken.
func TestFetchOfAnInterruptedBuild(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	f := newFetcher(ctx, &Client{}, PackOptions{})
	f.fetchAll(nil, nil, nil)
	if err := f.wait(); err != nil {
		t.Errorf("got %v, want no error without layers", err)
	}
}

// Who watches a layer learns that it has begun, how much of it was read, and that it has ended; the bytes of all layers
// are counted as well, and also if nobody watches.
func TestReadingOfALayer(t *testing.T) {
	var said []Reading
	f := &fetcher{PackOptions: PackOptions{Reading: func(r Reading) { said = append(said, r) }}}
	j := &job{layer: layerOf(1, 100)}
	read, end := watch(f.Reading, j.img, j.layer, f.count)
	read(60)
	read(40)
	end()
	at := func(done int64, ended bool) Reading {
		return Reading{Layer: j.layer.Digest, Done: done, Size: 100, Ended: ended}
	}
	if want := []Reading{at(0, false), at(60, false), at(100, false), at(100, true)}; !slices.Equal(said, want) {
		t.Errorf("got %+v, want %+v", said, want)
	}
	f.Reading = nil
	read, end = watch(f.Reading, j.img, j.layer, f.count)
	read(5)
	end()
	if f.got != 105 || len(said) != 4 {
		t.Errorf("got %d bytes in all and %d calls, want 105 and 4", f.got, len(said))
	}
}

// What is fetched of a blob is kept for the next run, but not of a blob on this machine, nor of one that a fast
// registry sends in seconds. A bug was that a file for it was made and removed.
func TestPartsThatAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		size              int64
		local, fast, part bool // part: an earlier run has left one
		want              bool
	}{
		"registry":                   {size: minResumed, want: true},
		"layout":                     {size: minResumed, local: true, want: false},
		"fast registry":              {size: keptIfFast - 1, fast: true, want: false},
		"fast registry, large layer": {size: keptIfFast, fast: true, want: true},
		"fast registry, has a part":  {size: minResumed, fast: true, part: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keepsPart(test.size, test.local, test.part, test.fast); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
