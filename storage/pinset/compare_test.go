package pinset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// locked has one image for each letter; its layers are named by letters too, and
// have 10 bytes each.
func locked(images map[string]string, tags map[string]string) pinset.Lock {
	l := pinset.Lock{Version: pinset.LockVersion, Platform: "linux/amd64"}
	for name, layers := range images {
		img := pinset.LockedImage{Pin: "quay.io/a/b@" + digest.FromString(name).String()}
		for _, layer := range strings.Split(layers, "") {
			img.Layers = append(img.Layers, pinset.LockedLayer{Digest: digest.FromString(layer), Size: 10})
		}
		if tags[name] != "" {
			img.Tags = []string{tags[name]}
		}
		l.Images = append(l.Images, img)
	}
	return l
}

func pinned(name string) string { return "quay.io/a/b@" + digest.FromString(name).String() }

func TestCompare(t *testing.T) {
	old := locked(map[string]string{"x": "ab", "y": "ac"}, map[string]string{"x": "quay.io/a/b:1"})
	now := locked(map[string]string{"y": "ac", "z": "ade"}, map[string]string{"z": "quay.io/a/b:1"})
	want := pinset.Difference{
		Added: []string{pinned("z")}, Removed: []string{pinned("x")}, Unchanged: []string{pinned("y")},
		MovedTags:   []string{"quay.io/a/b:1"},
		LayersAdded: pinset.BlobTotals{Count: 2, Bytes: 20}, LayersRemoved: pinset.BlobTotals{Count: 1, Bytes: 10},
		LayersUnchanged: pinset.BlobTotals{Count: 2, Bytes: 20},
	}
	if diff := cmp.Diff(want, pinset.Compare(old, now)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDrift(t *testing.T) {
	base := locked(map[string]string{"x": "ab", "y": "ac"}, nil)
	unpacked := locked(map[string]string{"x": "ab", "y": "ac"}, nil)
	known := &unpacked.Images[0].Layers[0]
	known.UnpackedSize, known.Inodes, known.RootAttributes = 100, 3, "0755:0:0"
	arm := locked(map[string]string{"x": "ab", "y": "ac"}, nil)
	arm.Platform = "linux/arm64"
	from := locked(map[string]string{"x": "ab", "y": "ac"}, nil)
	from.Sets = []pinset.LockedSet{{Name: "other"}}
	for name, c := range map[string]struct {
		now  pinset.Lock
		want string
	}{
		"nothing":         {base, ""},
		"sizes alone":     {unpacked, ""},
		"an image more":   {locked(map[string]string{"x": "ab", "y": "ac", "z": "a"}, nil), "+ " + pinned("z")},
		"an image less":   {locked(map[string]string{"x": "ab"}, nil), "- " + pinned("y")},
		"platform":        {arm, "platform linux/arm64, locked for linux/amd64"},
		"the sets":        {from, "the same images in other sets"},
		"layers that are": {locked(map[string]string{"x": "ab", "y": "ad"}, nil), "the same images in other sets"},
	} {
		if got := pinset.DescribeDifference(base, c.now); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
