package thin_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/thin"
)

// Small files that come again, far from the first time, would let a reader decompress a block for each of them: they
// are in the thin delta twice.
func TestSmallFilesThatComeAgain(t *testing.T) {
	const files = 300
	small := func(folder string, block uint64) (all []sample.Entry) {
		for n := range files {
			all = append(all, sample.File(fmt.Sprint(folder, n), program(1000*block+uint64(n), 1000, 0)))
		}
		return all
	}
	entries := append(small("first/", 1), sample.File("large", program(5, 4<<20, 0)))
	entries = append(entries, small("second/", 2)...)
	third, fourth := small("third/", 1), small("fourth/", 2)
	for n := range files {
		entries = append(entries, third[n], fourth[n])
	}
	next := thinned.Chain{stream(t, entries...)}
	delta, _ := makeThin(t, thin.Maker{Store: thinned.Named("next", store(t, nil, next))})
	got, err := thinned.Read(t.Context(), thinned.Named("delta", delta))
	if err != nil {
		t.Fatal(err)
	}
	checkStreams(t, got, next...)
}

// Files that were much larger before share no block whose dictionary would be too large. Headers that stay take nearly
// nothing, whatever their names.
func TestDictionaries(t *testing.T) {
	release := func(size, n int) thinned.Chain {
		var entries []sample.Entry
		for i := range 8 {
			entries = append(entries, sample.File(fmt.Sprint("usr/large-", i), program(uint64(i), size, n)))
		}
		for i := range 500 {
			entries = append(entries, sample.File("usr/"+digest.FromString(fmt.Sprint(i)).Encoded(), ""))
		}
		return thinned.Chain{stream(t, entries...)}
	}
	old, next := release(600_000, 1), release(20_000, 2)
	base := thinned.Named("base", store(t, nil, old))
	delta, made := makeThin(t, thin.Maker{
		Store: thinned.Named("next", store(t, nil, next)), Bases: []thin.Store{base}, Sources: old.IDs(),
	})
	got, err := thinned.Read(t.Context(), thinned.Named("delta", delta), base)
	if err != nil {
		t.Fatal(err)
	}
	checkStreams(t, got, next...)
	if l := made.Layers[0]; l.Patched.Files != 8 || l.Skeleton.Packed > 500*32/4 {
		t.Errorf("got %+v, want 8 patched files, and few bytes of the headers", l)
	}
}

// The files that take the most are named with their paths, the largest first; what all take is about the data.
func TestLargestFiles(t *testing.T) {
	p := makePair(t)
	if got := p.made.Largest[0].Path; got != "usr/share/new-c" {
		t.Errorf("got %s first, want the new file, usr/share/new-c", got)
	}
	if !slices.IsSortedFunc(p.made.Largest, func(a, b thin.Largest) int { return cmp.Compare(b.Packed, a.Packed) }) {
		t.Errorf("got %+v, want them sorted", p.made.Largest)
	}
	files, layers := int64(0), int64(0)
	for _, f := range p.made.Largest {
		files += f.Packed
	}
	for _, l := range p.made.Layers {
		files += l.Skeleton.Packed
		layers += l.Skeleton.Packed + l.Patched.Packed + l.Literal.Packed
	}
	for name, got := range map[string]int64{"files": files, "layers": layers} {
		if off := p.made.DataSize - got; off < 0 || off > p.made.DataSize/50 {
			t.Errorf("%s: got %d bytes, want about the %d of the data", name, got, p.made.DataSize)
		}
	}
}
