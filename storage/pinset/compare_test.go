package pinset_test

import (
	"strconv"
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
			img.Layers = append(img.Layers, &pinset.LockedLayer{Digest: digest.FromString(layer), Size: 10})
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
		Changed: []pinset.Change{{
			Name: "b:1", Old: pinOf("x"), New: pinOf("z"), NewLayers: pinset.BlobTotals{Count: 2, Bytes: 20}, Layers: 3,
		}},
		Unchanged: []string{pinOf("y")}, MovedTags: []string{"quay.io/a/b:1"},
		LayersAdded: pinset.BlobTotals{Count: 2, Bytes: 20}, LayersRemoved: pinset.BlobTotals{Count: 1, Bytes: 10},
		LayersUnchanged: pinset.BlobTotals{Count: 2, Bytes: 20},
	}
	if diff := cmp.Diff(want, pinset.Compare(old, now)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Images are paired by component, by tag, or as the only ones of their repository, and not otherwise.
func TestPairsOfImages(t *testing.T) {
	image := func(repository, digits, from string, tags ...string) pinset.LockedImage {
		return pinset.LockedImage{
			Pin: repository + "@" + digest.FromString(digits).String(), From: []string{from}, Tags: tags,
		}
	}
	const release = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	old := pinset.Lock{Images: []pinset.LockedImage{
		image(release, "1", "release/4.18.1/etcd"), image(release, "2", "release/4.18.1/cli"),
		image("quay.io/a/tool", "3", "x", "quay.io/a/tool:1"), image("quay.io/a/tool", "4", "x", "quay.io/a/tool:2"),
		image("quay.io/a/py", "5", "x"), image("quay.io/a/two", "6", "x"), image("quay.io/a/two", "7", "x"),
		image("quay.io/a/gone", "8", "x"),
	}}
	now := pinset.Lock{Images: []pinset.LockedImage{
		image(release, "11", "release/4.18.2/cli"), image(release, "12", "release/4.18.2/etcd"),
		image("quay.io/a/tool", "13", "x", "quay.io/a/tool:2"), image("quay.io/a/tool", "14", "x", "quay.io/a/tool:1"),
		image("quay.io/a/py", "15", "x"), image("quay.io/a/two", "16", "x"), image("quay.io/a/two", "17", "x"),
		image("quay.io/a/new", "18", "x"),
	}}
	d := pinset.Compare(old, now)
	digests := map[string]string{}
	for n := range 20 {
		digests[digest.FromString(strconv.Itoa(n)).String()] = strconv.Itoa(n)
	}
	of := func(pin string) string { return digests[pin[strings.Index(pin, "@")+1:]] }
	var got []string
	for _, c := range d.Changed {
		got = append(got, c.Name+" "+of(c.Old)+"-"+of(c.New))
	}
	want := []string{"cli 2-11", "etcd 1-12", "py 5-15", "tool:1 3-14", "tool:2 4-13"}
	if diff := cmp.Diff(want, got); diff != "" || len(d.Added) != 3 || len(d.Removed) != 3 {
		t.Errorf("got %d added and %d removed, want 3 and 3; pairs (-want +got):\n%s", len(d.Added), len(d.Removed), diff)
	}
}

func TestDescribeDifference(t *testing.T) {
	base := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	unpacked := makeLock(map[string]string{"x": "ab", "y": "ac"}, nil)
	layer := unpacked.Images[0].Layers[0]
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
