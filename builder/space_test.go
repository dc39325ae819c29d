package builder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

func gz(name string, size int64) pinset.LockedLayer {
	return pinset.LockedLayer{Digest: digest.FromString(name + ".gz"), DiffID: digest.FromString(name), Size: size}
}

func plain(name string, size int64) pinset.LockedLayer {
	return pinset.LockedLayer{Digest: digest.FromString(name), DiffID: digest.FromString(name), Size: size}
}

func TestSpaceThatABuildNeeds(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base.iso")
	if err := os.WriteFile(base, make([]byte, 500), 0o644); err != nil {
		t.Fatal(err)
	}
	images := []storage.Resolved{
		{LockedImage: pinset.LockedImage{Layers: []pinset.LockedLayer{gz("base", 1000), gz("a", 100)}}},
		{LockedImage: pinset.LockedImage{Layers: []pinset.LockedLayer{gz("base", 1000), plain("b", 300)}}},
	}
	kept := func(names ...string) func(pinset.LockedLayer) (int64, bool) {
		return func(l pinset.LockedLayer) (int64, bool) {
			for _, n := range names {
				if l.DiffID == digest.FromString(n) {
					return 1200, true
				}
			}
			return 0, false
		}
	}
	for name, test := range spaceTests(base) {
		o := Options{Out: "/out/a/", Cache: Cache{Dir: "/cache"}}
		test.spec(&o)
		needs, err := o.needs(images, 30, kept(test.kept...))
		if err != nil {
			t.Fatal(err)
		}
		if test.out == 0 {
			if len(needs) > 0 {
				t.Errorf("%s: %+v", name, needs)
			}
			continue
		}
		if needs[0].bytes != test.out || needs[0].dir != "/out" {
			t.Errorf("%s: the output needs %+v, want %d", name, needs[0], test.out)
		}
		if got := needs[1:]; len(got) == 0 && test.cache > 0 || len(got) == 1 && got[0].bytes != test.cache {
			t.Errorf("%s: the cache needs %+v, want %d", name, got, test.cache)
		}
	}
}

func TestWhatFits(t *testing.T) {
	needs := []need{
		{dir: "/out", what: "the store", bytes: 70}, {dir: "/cache", what: "the cache", bytes: 50, exact: true},
	}
	for name, test := range map[string]struct {
		disks map[string]disk
		says  string
	}{
		"two disks": {map[string]disk{"/out": {1, 70}, "/cache": {2, 50}}, ""},
		"one disk":  {map[string]disk{"/out": {1, 120}, "/cache": {1, 120}}, ""},
		"one that is full": {
			map[string]disk{"/out": {1, 119}, "/cache": {1, 119}},
			"/out: not enough space: the store needs about 70 bytes, the cache needs 50 bytes, and 119 bytes are free",
		},
		"the second is full": {
			map[string]disk{"/out": {1, 70}, "/cache": {2, 49}},
			"/cache: not enough space: the cache needs 50 bytes, and 49 bytes are free",
		},
	} {
		err := fits(needs, func(dir string) (disk, error) { return test.disks[dir], nil })
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, ErrSpace) ||
			!strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d, err := diskOf(filepath.Join(t.TempDir(), "not", "there")); err != nil || d.free <= 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

type spaceTest struct {
	spec  func(*Options)
	kept  []string
	out   int64
	cache int64
}

func spaceTests(base string) map[string]spaceTest {
	return map[string]spaceTest{
		"nothing is known":  {func(*Options) {}, nil, 666 + 66 + 15 + 20, 747},
		"one layer is kept": {func(*Options) {}, []string{"base"}, 1200 + 66 + 15 + 20, 66 + 15},
		"all are kept":      {func(*Options) {}, []string{"base", "a", "b"}, 0, 0},
		"nothing is kept":   {func(o *Options) { o.Cache.Dir = "" }, nil, 747 + 20 + 666, 0},
		"with an ISO":       {func(o *Options) { o.Appliance.Spec.ISO.Base = base }, nil, 500 + 2*757 + 10, 747},
		"a tar": {
			func(o *Options) { o.Appliance.Spec.Store.Format = format.Tar }, nil, 2000 + 200 + 300 + 30, 747,
		},
		"a tar, all kept": {
			func(o *Options) { o.Appliance.Spec.Store.Format = format.Tar }, []string{"base", "a", "b"}, 2530, 0,
		},
		"a tar, none kept": {
			func(o *Options) { o.Appliance.Spec.Store.Format, o.Cache.Dir = format.Tar, "" }, nil, 2530 + 747, 0,
		},
		"a folder": {func(o *Options) { o.Appliance.Spec.Store.Format = format.Dir }, nil, 2530, 0},
		"a tar with a lock": {func(o *Options) {
			o.Appliance.Spec.Store.Format = format.Tar
			base := gz("base", 1000)
			base.UnpackedSize = 3000
			o.Lock = pinset.Lock{Images: []pinset.LockedImage{{Layers: []pinset.LockedLayer{base}}}}
		}, nil, 3530, 747},
		"with another disk": {
			func(o *Options) { o.Appliance.Spec.ISO.Base = base; o.Appliance.Spec.Node.Store.VolumeLabel = "X" }, nil,
			500 + 757 + 10, 747,
		},
	}
}
