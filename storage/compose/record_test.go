package compose

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

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

// A store of somebody else may list very many documents for one image. A bug was that each was looked for among all
// others: that takes 100 times as long as to write down the keys.
func TestTimeForDocumentsOfOneImage(t *testing.T) {
	documents := make([]BigData, 64_000)
	for i := range documents {
		documents[i].Key = fmt.Sprintf("signature-%064x", i)
	}
	added := leastTime(func() { (&ImageRecord{}).addAll(documents) })
	written := leastTime(func() {
		keys := map[string]bool{}
		for _, d := range documents {
			keys[d.Key] = true
		}
	})
	if ratio := float64(added) / float64(written); ratio > 15 {
		t.Errorf("got %s for %d documents, %.0f times as long as for a map of their keys; want 15 at most",
			added, len(documents), ratio)
	}
}

// leastTime is that of three calls.
func leastTime(call func()) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 3 {
		begun := time.Now()
		call()
		least = min(least, time.Since(begun))
	}
	return least
}
