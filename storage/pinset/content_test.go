package pinset_test

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// goodContent is what a node writes of a store.
func goodContent() pinset.StoreContent {
	id := strings.Repeat("0", 64)
	return pinset.StoreContent{
		Base: pinset.Base{Lock: digest.FromString("lock")}, Platform: "linux/amd64", Wish: digest.FromString("wish"),
		Layers: []pinset.StoredLayer{{ID: id, UnpackedSize: 1, Inodes: 1, RootAttributes: "0755:0:0"}, {ID: id}},
	}
}

// What no node writes in a report is refused, before anybody computes with it.
func TestCheckContents(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*pinset.StoreContent)
		want   string
	}{
		"good":                {func(*pinset.StoreContent) {}, ""},
		"digest of the store": {func(s *pinset.StoreContent) { s.Store = "sha256:0" }, "content[0]: store"},
		"digest of the lock":  {func(s *pinset.StoreContent) { s.Lock = "" }, "content[0]: lock"},
		"digest of the wish":  {func(s *pinset.StoreContent) { s.Wish = "x" }, "content[0]: wish"},
		"release":             {func(s *pinset.StoreContent) { s.Number = -1 }, "content[0]: release"},
		"platform":            {func(s *pinset.StoreContent) { s.Platform = "windows" }, "content[0]: platform"},
		"artifact":            {func(s *pinset.StoreContent) { s.Artifacts = []string{"\x1b[2J"} }, "content[0]: artifacts"},
		"program":             {func(s *pinset.StoreContent) { s.Program = &pinset.Program{} }, "content[0]: program: digest"},
		"ID":                  {func(s *pinset.StoreContent) { s.Layers[1].ID = "../x" }, "content[0]: layers[1]: id"},
		"size":                {func(s *pinset.StoreContent) { s.Layers[0].UnpackedSize = -1 }, "content[0]: layers[0]: negative"},
		"inodes":              {func(s *pinset.StoreContent) { s.Layers[0].Inodes = -1 }, "content[0]: layers[0]: negative"},
		"root":                {func(s *pinset.StoreContent) { s.Layers[0].RootAttributes = "rwx" }, "content[0]: layers[0]: root"},
		"too many layers": {func(s *pinset.StoreContent) {
			for range pinset.MaxContentLayers {
				s.Layers = append(s.Layers, s.Layers[0])
			}
		}, "content: 300002 layers"},
	} {
		t.Run(name, func(t *testing.T) {
			s := goodContent()
			c.change(&s)
			err := pinset.CheckContents([]pinset.StoreContent{s})
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	s := goodContent()
	s.Current = true
	if err := pinset.CheckContents([]pinset.StoreContent{s, s}); err == nil {
		t.Error("two current stores: got no error, want one")
	}
}

// The current store is the one that says so, else the first.
func TestCurrentContent(t *testing.T) {
	a, b := goodContent(), goodContent()
	if got := pinset.CurrentContent(nil); got != nil {
		t.Errorf("got %v of no stores, want nil", got)
	}
	stores := []pinset.StoreContent{a, b}
	if got := pinset.CurrentContent(stores); got != &stores[0] {
		t.Error("got another store, want the first")
	}
	stores[1].Current = true
	if got := pinset.CurrentContent(stores); got != &stores[1] {
		t.Error("got another store, want the current one")
	}
}

// The wish of a lock depends on what nodes are to have, and not on how much is known of it.
func TestWish(t *testing.T) {
	pin := "quay.io/a/b@" + digest.FromString("x").String()
	lock := func(change func(*pinset.Lock)) pinset.Lock {
		l := pinset.Lock{
			ReleaseID: pinset.ReleaseID{Name: "edge", Number: 1}, Sets: []pinset.LockedSet{{Name: "s", Images: []string{pin}}},
			Images: []pinset.LockedImage{{Pin: pin, Layers: []*pinset.LockedLayer{{Size: 1}}}},
		}
		change(&l)
		return l
	}
	wish := lock(func(*pinset.Lock) {}).Wish()
	for name, c := range map[string]struct {
		change func(*pinset.Lock)
		same   bool
	}{
		"number":        {func(l *pinset.Lock) { l.Number = 2 }, true},
		"known inodes":  {func(l *pinset.Lock) { l.Images[0].Layers[0].Inodes = 7 }, true},
		"program":       {func(l *pinset.Lock) { l.Program = &pinset.Program{} }, true},
		"appliance":     {func(l *pinset.Lock) { l.Name = "ship" }, false},
		"set":           {func(l *pinset.Lock) { l.Sets[0].Name = "t" }, false},
		"label":         {func(l *pinset.Lock) { l.Sets[0].Labels = map[string]string{"a": "b"} }, false},
		"another image": {func(l *pinset.Lock) { l.Images = append(l.Images, pinset.LockedImage{Pin: "x"}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lock(c.change).Wish(); (got == wish) != c.same {
				t.Errorf("got %s and %s, want equal: %v", got, wish, c.same)
			}
		})
	}
}
