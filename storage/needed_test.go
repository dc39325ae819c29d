package storage

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Each layer is fetched once, also if it has several places in the store, and if a place has two blobs: the second one
// is only verified.
func TestLayersToFetch(t *testing.T) {
	layer := func(blob, diff string) *pinset.LockedLayer {
		return &pinset.LockedLayer{Digest: digest.FromString(blob), DiffID: digest.FromString(diff)}
	}
	image := func(layers ...*pinset.LockedLayer) Resolved {
		return Resolved{LockedImage: pinset.LockedImage{Layers: layers}}
	}
	a, b, again := layer("a", "A"), layer("b", "B"), layer("a again", "A")
	for name, test := range map[string]struct {
		images []Resolved
		want   []needed
		uses   map[content]int
	}{
		"layers in common": {[]Resolved{image(a, b), image(a, b)}, []needed{{0, 0}, {0, 1}}, map[content]int{}},
		"on different layers": {
			[]Resolved{image(a, b), image(b, a)}, []needed{{0, 0}, {0, 1}}, map[content]int{contentOf(a): 2, contentOf(b): 2},
		},
		"two blobs of one layer": {
			[]Resolved{image(a), image(again), image(again)}, []needed{{0, 0}, {1, 0}}, map[content]int{contentOf(again): 0},
		},
		"a second blob with a place of its own": {
			[]Resolved{image(a), image(again), image(b, again)}, []needed{{0, 0}, {1, 0}, {2, 0}}, map[content]int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, uses := layersToFetch(test.images, emptyStore(t))
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(needed{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(test.uses, uses, cmp.AllowUnexported(content{})); diff != "" {
				t.Errorf("uses: -want +got:\n%s", diff)
			}
		})
	}
}

// Large layers come first, the largest before the others, and small ones as the images have them. A bug was that a
// large layer of the last image was packed alone, after all others.
func TestLargestLayersComeFirst(t *testing.T) {
	for name, test := range map[string]struct{ sizes, want []int64 }{
		"small ones":          {[]int64{2, 3, 1}, []int64{2, 3, 1}},
		"a large one":         {[]int64{2, 1, largePart}, []int64{largePart, 2, 1}},
		"large ones":          {[]int64{1, largePart, 2, 2 * largePart}, []int64{2 * largePart, largePart, 1, 2}},
		"an unknown size":     {[]int64{-1, largePart}, []int64{largePart, -1}},
		"as many as fit":      {[]int64{1, largePart, firstBytes - 1}, []int64{firstBytes - 1, 1, largePart}},
		"one that is larger":  {[]int64{largePart, firstBytes + 1}, []int64{firstBytes + 1, largePart}},
		"ones that overflow":  {[]int64{1, math.MaxInt64, math.MaxInt64}, []int64{math.MaxInt64, 1, math.MaxInt64}},
		"equal ones in order": {[]int64{largePart, 1, largePart}, []int64{largePart, largePart, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var img Resolved
			var later []needed
			for i, size := range test.sizes {
				img.Layers = append(img.Layers, layerOf(i, size))
				later = append(later, needed{0, int32(i)})
			}
			images := []Resolved{img}
			var got []int64
			for _, n := range largestFirst(later, images) {
				got = append(got, n.in(images).Size)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got layers of %d bytes, want %d", got, test.want)
			}
		})
	}
}

func emptyStore(t *testing.T) *compose.Store {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(compressor.Close)
	out, err := squashfs.NewWriter(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := compose.NewStore(out, compressor, time.Unix(0, 0), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Abort)
	return store
}

// No more than some layers are fetched before the store has taken them: each is an open file. The store gets its
// layers in any order nevertheless.
func TestFewLayersAreFetchedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const layers = 3 * fetchedAhead
		f := newFetcher(t.Context(), &Client{}, PackOptions{})
		f.stop() // each job ends at once
		var img Resolved
		for i := range layers {
			d := digest.FromString(fmt.Sprint(i))
			img.Layers = append(img.Layers, &pinset.LockedLayer{Digest: d, DiffID: d})
		}
		f.fetchAll([]Resolved{img}, emptyStore(t), nil)
		synctest.Wait()
		f.mu.Lock()
		if jobs, later := len(f.jobs), len(f.later); jobs != fetchedAhead || later != layers-fetchedAhead {
			t.Errorf("got %d jobs and %d layers without one, want %d and %d", jobs, later, fetchedAhead, layers-fetchedAhead)
		}
		f.mu.Unlock()
		if _, _, err := f.take(img.Layers[layers-1]); err == nil { // the fetcher was stopped
			t.Error("got no error")
		}
		f.drop()
		if err := f.wait(); err == nil {
			t.Error("got no error of the group")
		}
	})
}
