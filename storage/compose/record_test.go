package compose

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

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
func TestTimeForDocumentsOfOneImage(t *testing.T) {
	const few, many = 4_000, 32_000
	before, after := timeToSeal(t, few), timeToSeal(t, many)
	if exponent := math.Log(float64(after)/float64(before)) / math.Log(many/few); exponent > 1.6 {
		t.Errorf("got %s for %d documents and %s for %d, which grows with the power %.2f; want 1.6 at most",
			before, few, after, many, exponent)
	}
}

// timeToSeal returns the least of five times for an image with so many signed manifests.
func timeToSeal(t *testing.T, n int) time.Duration {
	t.Helper()
	signatures := map[digest.Digest][][]byte{}
	for i := range n {
		signatures[digest.FromString(fmt.Sprint(i))] = [][]byte{[]byte("signature")}
	}
	least := time.Duration(math.MaxInt64)
	for range 5 {
		r := &ImageRecord{signatures: signatures}
		begun := time.Now()
		if err := r.seal(); err != nil {
			t.Fatal(err)
		}
		least = min(least, time.Since(begun))
	}
	return least
}
