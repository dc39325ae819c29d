package pinset_test

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Images have their layers in common where all fields are equal: one blob may be unpacked on other layers, from which
// it inherits the attributes of its root.
func TestSharedLayers(t *testing.T) {
	layer := func(blob, root string) *pinset.LockedLayer {
		d := digest.FromString(blob)
		return &pinset.LockedLayer{Digest: d, DiffID: d, Size: 1, RootAttributes: root}
	}
	var s pinset.Shared
	first := s.Layers([]*pinset.LockedLayer{layer("a", "0755:0:0"), layer("b", "0755:0:0")})
	second := s.Layers([]*pinset.LockedLayer{layer("a", "0755:0:0"), layer("b", "0700:0:0")})
	if first[0] != second[0] {
		t.Error("got two layers that are equal, want one")
	}
	if first[1] == second[1] || first[1].RootAttributes != "0755:0:0" || second[1].RootAttributes != "0700:0:0" {
		t.Errorf("got %+v and %+v, want two layers with the attributes 0755:0:0 and 0700:0:0", first[1], second[1])
	}
	if got := s.Layers(nil); got != nil {
		t.Errorf("got %v of no layers, want nil", got)
	}
}

// A layer of a lock may be null, which is no layer.
func TestLockWithoutALayer(t *testing.T) {
	var text strings.Builder
	if err := similarImages(1, 1).Encode(&text); err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(text.String(), `"layers": [`)
	_, after, _ := strings.Cut(rest, "]")
	_, err := pinset.DecodeLock(strings.NewReader(before + `"layers": [null]` + after))
	if want := "images[0]: layers[0]: null"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want an error that ends with %s", err, want)
	}
}
