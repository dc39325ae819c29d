package pinset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// makeLock returns a lock with one image for each letter. Its layers are named by letters, too, and
// have 10 bytes each.
func makeLock(images map[string]string, tags map[string]string) pinset.Lock {
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

func pinOf(name string) string { return "quay.io/a/b@" + digest.FromString(name).String() }

func TestCompare(t *testing.T) {
	old := makeLock(map[string]string{"x": "ab", "y": "ac"}, map[string]string{"x": "quay.io/a/b:1"})
	now := makeLock(map[string]string{"y": "ac", "z": "ade"}, map[string]string{"z": "quay.io/a/b:1"})
	want := pinset.Difference{
		Added: []string{pinOf("z")}, Removed: []string{pinOf("x")}, Unchanged: []string{pinOf("y")},
		MovedTags:   []string{"quay.io/a/b:1"},
		LayersAdded: pinset.BlobTotals{Count: 2, Bytes: 20}, LayersRemoved: pinset.BlobTotals{Count: 1, Bytes: 10},
		LayersUnchanged: pinset.BlobTotals{Count: 2, Bytes: 20},
	}
	if diff := cmp.Diff(want, pinset.Compare(old, now)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDescribeDifference(t *testing.T) {
	base := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	unpacked := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	layer := &unpacked.Images[0].Layers[0]
	layer.UnpackedSize, layer.Inodes, layer.RootAttributes = 100, 3, "0755:0:0"
	next := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	next.ReleaseID = pinset.ReleaseID{Name: "edge", Number: 8}
	arm := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	arm.Platform = "linux/arm64"
	otherSets := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	otherSets.Sets = []pinset.LockedSet{{Name: "other"}}
	for name, c := range map[string]struct {
		now  pinset.Lock
		want string
	}{
		"nothing":       {base, ""},
		"sizes alone":   {unpacked, ""},
		"next release":  {next, ""},
		"an image more": {makeLock(map[string]string{"x": "ab", "y": "ac", "z": "a"}, nil), "+ " + pinOf("z")},
		"an image less": {makeLock(map[string]string{"x": "ab"}, nil), "- " + pinOf("y")},
		"platform":      {arm, "platform linux/arm64, locked for linux/amd64"},
		"the sets":      {otherSets, "the same images in other sets"},
		"the layers":    {makeLock(map[string]string{"x": "ab", "y": "ad"}, nil), "the same images in other sets"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pinset.DescribeDifference(base, c.now); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
