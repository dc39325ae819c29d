package pinset_test

import (
	"maps"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// layersOf returns an image with layers of these names, whose blobs have 1, 2, 4 and 8 bytes.
func layersOf(names ...string) (img pinset.LockedImage) {
	sizes := map[string]int64{"a": 1, "b": 2, "c": 4, "d": 8}
	for _, n := range names {
		l := &pinset.LockedLayer{Digest: digest.FromString(n), DiffID: digest.FromString("tar of " + n), Size: sizes[n]}
		img.Layers = append(img.Layers, l)
	}
	return img
}

// A layer is missing unless it is unpacked on the same parent. It must be fetched unless it is
// unpacked on any parent.
func TestMissingLayers(t *testing.T) {
	for name, test := range map[string]struct {
		layers  []string
		missing int
		fetch   int64
	}{
		"unpacked, by blob and by DiffID": {[]string{"a", "b"}, 0, 0},
		"the top is new":                  {[]string{"a", "b", "c"}, 1, 4},
		"unpacked on another parent":      {[]string{"b"}, 1, 0},
		"above a missing layer":           {[]string{"d", "a"}, 2, 8},
	} {
		t.Run(name, func(t *testing.T) {
			l := pinset.Layers{}
			l.Add("1", "", digest.FromString("a"), "")
			l.Add("2", "1", "", digest.FromString("tar of b"))
			l.Add("3", "9", digest.FromString("b"))
			missing, fetch := l.MissingLayers(layersOf(test.layers...))
			if len(missing) != test.missing || fetch != test.fetch {
				t.Errorf("got %d layers, %d bytes, want %d, %d", len(missing), fetch, test.missing, test.fetch)
			}
			if missing, fetch := l.MissingLayers(layersOf(test.layers...)); len(missing) > 0 || fetch > 0 {
				t.Errorf("the next image with them: got %d layers, %d bytes, want none", len(missing), fetch)
			}
		})
	}
}

// A layer of an earlier image is missing on another parent.
func TestMissingLayersOnOtherParents(t *testing.T) {
	l := pinset.Layers{}
	l.MissingLayers(layersOf("a", "b"))
	if missing, fetch := l.MissingLayers(layersOf("c", "b")); len(missing) != 2 || fetch != 4 {
		t.Errorf("got %d layers, %d bytes, want 2, 4", len(missing), fetch)
	}
}

func TestMissingBlobs(t *testing.T) {
	l := pinset.Layers{}
	l.Add("1", "", digest.FromString("a"))
	l.Add("2", "1", digest.FromString("tar of b"))
	got := l.MissingBlobs(layersOf("a", "b", "c", "d"))
	want := map[digest.Digest]int64{digest.FromString("c"): 4, digest.FromString("d"): 8}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
