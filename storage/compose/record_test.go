package compose

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
)

// The first document with a key stays.
func TestDocumentsOfOneImage(t *testing.T) {
	r := &ImageRecord{Image: layout.Image{ID: "app"}}
	r.set(BigData{Key: "manifest", Digest: "first"})
	r.addAll([]BigData{{Key: "manifest", Digest: "second"}, {Key: "config", Digest: "third"}, {Key: "config", Digest: "last"}})
	want := []BigData{{Key: "manifest", Digest: "first"}, {Key: "config", Digest: "third"}}
	if !slices.EqualFunc(r.BigData, want, func(a, b BigData) bool { return a.Key == b.Key && a.Digest == b.Digest }) {
		t.Errorf("got %v, want %v", r.BigData, want)
	}
}

// The time for the documents of one image grows with their number: a store of somebody else may list very many. A bug
// was that each was looked for among all others, so that the exponent was 2.
func BenchmarkDocumentsOfOneImage(b *testing.B) {
	const few, many = 4_000, 32_000
	perSeal := map[int]float64{}
	for _, n := range []int{few, many} {
		signatures := map[digest.Digest][][]byte{}
		for i := range n {
			signatures[digest.FromString(fmt.Sprint(i))] = [][]byte{[]byte("signature")}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				r := &ImageRecord{signatures: signatures}
				if err := r.seal(); err != nil {
					b.Fatal(err)
				}
			}
			perSeal[n] = float64(b.Elapsed()) / float64(b.N)
		})
	}
	if exponent := math.Log(perSeal[many]/perSeal[few]) / math.Log(many/few); exponent > 1.6 {
		b.Errorf("%d documents instead of %d: the time grows with the power %.2f, want 1.6 at most", many, few, exponent)
	}
}
