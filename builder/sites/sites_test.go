package sites_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/sites"
	"github.com/pinbox/pinbox/storage/pinset"
)

const platform = "linux/amd64"

// sizes of the blobs of layers, by their names.
var sizes = map[string]int64{"a": 1, "b": 10, "c": 100, "d": 1000}

// image has one layer of each name, the lowest first.
func image(name string, layers ...string) pinset.LockedImage {
	d := digest.FromString(name)
	img := pinset.LockedImage{Pin: "quay.example.com/" + name + "@" + d.String(), Manifest: d, Config: d}
	for _, l := range layers {
		img.Layers = append(img.Layers, &pinset.LockedLayer{
			Digest: digest.FromString(l + ".gz"), DiffID: digest.FromString(l), Size: sizes[l],
		})
	}
	return img
}

// release has an image of each layer, a, b, c and d; the first one has a layer more above it.
func release() pinset.Lock {
	return pinset.Lock{
		Version: pinset.LockVersion, Platform: platform, ReleaseID: pinset.ReleaseID{Name: "edge", Number: 5},
		Images: []pinset.LockedImage{image("a", "a", "top"), image("b", "b"), image("c", "c"), image("d", "d")},
	}
}

// site has the layers with the names that are the letters of a text, of release 4.
func site(name, letters string) sites.Site {
	s := pinset.StoreContent{
		ReleaseID: pinset.ReleaseID{Name: "edge", Number: 4}, Platform: platform, Current: true,
		Base: pinset.Base{Lock: digest.FromString(letters)}, Wish: digest.FromString("old"),
	}
	for _, l := range strings.Split(letters, "") {
		if l != "" {
			s.Layers = append(s.Layers, pinset.StoredLayer{ID: base.Chain(image(l, l))[0].ID})
		}
	}
	return sites.Site{Name: name, Stores: []pinset.StoreContent{s}}
}

// Each site gets a delta with all that it lacks, and the deltas are as few as they can be.
func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		sites string // the layers of site 1, of site 2 and so on
		max   int
		want  string // the sites of each delta, and its bytes
	}{
		"no sites":                    {"", 0, ""},
		"one site":                    {"abc", 0, "1:1000"},
		"sites with equal layers":     {"abc abc abc", 0, "1,2,3:1000"},
		"more layers of others":       {"abcx abcy", 0, "1,2:1000"},
		"one with more than another":  {"ab abc", 0, "1,2:1100"},
		"each lacks another one":      {"abc abd", 0, "1:1000 2:100"},
		"the smallest that serves":    {"ab ac abcd", 0, "1:1100 2,3:1010"},
		"nothing in common":           {"x ab", 0, "1,2:1111"},
		"at most one":                 {"abc abd", 1, "1,2:1100"},
		"at most two: the cheap pair": {"bcd acd ab", 2, "1,2:11 3:1100"},
		"at most two of more sites":   {"bcd bcd bcd acd abd", 2, "1,2,3,4:11 5:100"},
		"at most more than there are": {"abc abd", 9, "1:1000 2:100"},
		"one after another":           {"bcd acd abd abc", 1, "1,2,3,4:1111"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []sites.Site
			for i, letters := range strings.Fields(c.sites) {
				all = append(all, site(fmt.Sprint(i+1), letters))
			}
			slices.Reverse(all) // which does not matter
			var got []string
			for _, d := range sites.New(release(), all, c.max).Deltas {
				var names []string
				for _, s := range d.Sites {
					names = append(names, s.Name)
				}
				got = append(got, fmt.Sprintf("%s:%d", strings.Join(names, ","), d.Bytes))
				common := base.NewCommon(d.Bases, release().Images)
				if err := d.Check(common.Delta); err != nil {
					t.Errorf("delta of %v: got %v, want that it serves its sites", names, err)
				}
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" && c.want+strings.Join(got, "") != "" {
				t.Errorf("deltas (-want +got):\n%s", diff)
			}
		})
	}
}

// A site that a delta cannot serve is named, and one that has the release gets none.
func TestSitesWithoutADelta(t *testing.T) {
	change := func(f func(*pinset.StoreContent)) sites.Site {
		s := site("x", "ab")
		f(&s.Stores[0])
		return s
	}
	for name, c := range map[string]struct {
		site   sites.Site
		reason string // "" of a site that has the release
	}{
		"no stores":         {sites.Site{Name: "x"}, "its report lists no stores"},
		"another platform":  {change(func(s *pinset.StoreContent) { s.Platform = "linux/arm64" }), "stores are for linux/arm64"},
		"another appliance": {change(func(s *pinset.StoreContent) { s.Name = "ship" }), "of another appliance"},
		"a newer release":   {change(func(s *pinset.StoreContent) { s.Number = 6 }), "not newer"},
		"the same number":   {change(func(s *pinset.StoreContent) { s.Number = 5 }), "not newer"},
		"the release": {change(func(s *pinset.StoreContent) {
			s.Number, s.Wish = 5, release().Wish()
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := sites.New(release(), []sites.Site{c.site}, 0)
			if c.reason == "" {
				if len(p.Deltas)+len(p.Unserved) > 0 || !slices.Equal(p.Done, []string{"x"}) {
					t.Errorf("got %+v, want that the site has the release", p)
				}
				return
			}
			if len(p.Deltas)+len(p.Done) > 0 || len(p.Unserved) != 1 || !strings.Contains(p.Unserved[0].Reason, c.reason) {
				t.Errorf("got %+v, want no delta, since %q", p, c.reason)
			}
		})
	}
}

// A layer counts only with those below it, and the layers of all stores of a site count.
func TestLayersOfASite(t *testing.T) {
	top := base.Chain(image("a", "a", "top"))[1].ID
	s := site("x", "")
	s.Stores[0].Layers = []pinset.StoredLayer{{ID: top}}
	if d := sites.New(release(), []sites.Site{s}, 0).Deltas[0]; d.Bytes != 1111 || len(d.Bases[0].Held) != 0 {
		t.Errorf("got %+v, want all layers", d)
	}
	s.Stores = append(s.Stores, site("x", "a").Stores[0])
	s.Stores[1].Current = false
	if d := sites.New(release(), []sites.Site{s}, 0).Deltas[0]; d.Bytes != 1110 || len(d.Bases[0].Held) != 2 {
		t.Errorf("got %+v, want all layers but two", d)
	}
	if err := (sites.Delta{Sites: []sites.Site{s}}).Check(pinset.Delta{Needs: []pinset.Need{{Layer: "b"}}}); !errors.Is(err, sites.ErrNotServed) {
		t.Errorf("got %v, want %v", err, sites.ErrNotServed)
	}
}

// Three hundred sites of which no two are alike are planned in little time.
func TestManySites(t *testing.T) {
	lock := pinset.Lock{Version: pinset.LockVersion, Platform: platform}
	var all []sites.Site
	for i := range 300 {
		name := fmt.Sprintf("l%03d", i)
		lock.Images = append(lock.Images, image(name, name))
		s := site(name, "")
		s.Stores[0].ReleaseID = pinset.ReleaseID{}
		s.Stores[0].Layers = []pinset.StoredLayer{{ID: base.Chain(lock.Images[i])[0].ID}}
		all = append(all, s)
	}
	if p := sites.New(lock, all, 3); len(p.Deltas) != 3 {
		t.Errorf("got %d deltas, want 3", len(p.Deltas))
	}
}

// What sites have wanted in vain, and the release does not bring them, is named with the sites.
func TestLacking(t *testing.T) {
	lock := release()
	lock.Images[0].Tags = []string{"quay.example.com/a:1"}
	const model = "quay.example.com/model"
	lock.Artifacts = []pinset.LockedArtifact{{Pin: model + "@sha256:1", Tags: []string{model + ":1"}}}
	wants := func(name string, images ...string) sites.Site { return sites.Site{Name: name, Wanted: images} }
	got := sites.Lacking(lock, []sites.Site{
		wants("z", "quay.example.com/new:1", lock.Images[1].Pin), wants("y", "quay.example.com/a:1", "quay.example.com/a:2"),
		wants("x", "quay.example.com/new:1", model+":1", lock.Artifacts[0].Pin), wants("w"),
	})
	want := []string{
		"quay.example.com/a:2 was wanted on y and is not in the release: --wanted with the reports adds it",
		"quay.example.com/new:1 was wanted on x, z and is not in the release: --wanted with the reports adds it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
