package pinset_test

import (
	"maps"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// layersOf are layers of an image by their names, whose blobs have 1, 2, 4 and so on bytes.
func layersOf(names ...string) (img pinset.LockedImage) {
	sizes := map[string]int64{"a": 1, "b": 2, "c": 4, "d": 8}
	for _, n := range names {
		l := pinset.LockedLayer{Digest: digest.FromString(n), DiffID: digest.FromString("tar of " + n), Size: sizes[n]}
		img.Layers = append(img.Layers, l)
	}
	return img
}

// A layer is there on its own parent only, and is fetched unless it is unpacked anywhere.
func TestLacks(t *testing.T) {
	for name, test := range map[string]struct {
		layers []string
		lacks  int
		fetch  int64
	}{
		"all is there, by blob and by tar stream": {[]string{"a", "b"}, 0, 0},
		"the top is new":                     {[]string{"a", "b", "c"}, 1, 4},
		"unpacked on another parent":         {[]string{"b"}, 1, 0},
		"nothing above a missing one counts": {[]string{"d", "a"}, 2, 8},
	} {
		t.Run(name, func(t *testing.T) {
			l := pinset.Layers{}
			l.Add("1", "", digest.FromString("a"), "")
			l.Add("2", "1", "", digest.FromString("tar of b"))
			l.Add("3", "9", digest.FromString("b"))
			lacks, fetch := l.MissingLayers(layersOf(test.layers...))
			if len(lacks) != test.lacks || fetch != test.fetch {
				t.Errorf("got %d layers, %d bytes, want %d, %d", len(lacks), fetch, test.lacks, test.fetch)
			}
			if lacks, fetch := l.MissingLayers(layersOf(test.layers...)); len(lacks) > 0 || fetch > 0 {
				t.Errorf("the next image with them: got %d layers, %d bytes, want none", len(lacks), fetch)
			}
		})
	}
}

// What one image brings, another one does not on another parent.
func TestLacksCountsParents(t *testing.T) {
	l := pinset.Layers{}
	l.MissingLayers(layersOf("a", "b"))
	if lacks, fetch := l.MissingLayers(layersOf("c", "b")); len(lacks) != 2 || fetch != 4 {
		t.Errorf("got %d layers, %d bytes, want 2, 4", len(lacks), fetch)
	}
}

func TestAbsent(t *testing.T) {
	l := pinset.Layers{}
	l.Add("1", "", digest.FromString("a"))
	l.Add("2", "1", digest.FromString("tar of b"))
	got := l.MissingBlobs(layersOf("a", "b", "c", "d"))
	want := map[digest.Digest]int64{digest.FromString("c"): 4, digest.FromString("d"): 8}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
