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

func gz(name string, size int64) *pinset.LockedLayer {
	return &pinset.LockedLayer{Digest: digest.FromString(name + ".gz"), DiffID: digest.FromString(name), Size: size}
}

func plain(name string, size int64) *pinset.LockedLayer {
	return &pinset.LockedLayer{Digest: digest.FromString(name), DiffID: digest.FromString(name), Size: size}
}

func TestSpaceOfABuild(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base.iso")
	if err := os.WriteFile(base, make([]byte, 500), 0o644); err != nil {
		t.Fatal(err)
	}
	images := []storage.Resolved{
		{LockedImage: pinset.LockedImage{Layers: []*pinset.LockedLayer{gz("base", 1000*k), gz("a", 100*k)}}},
		{LockedImage: pinset.LockedImage{Layers: []*pinset.LockedLayer{gz("base", 1000*k), plain("b", 300*k)}}},
	}
	cached := func(names ...string) func(*pinset.LockedLayer) (int64, bool) {
		return func(l *pinset.LockedLayer) (int64, bool) {
			for _, n := range names {
				if l.DiffID == digest.FromString(n) {
					return 1200 * k, true
				}
			}
			return 0, false
		}
	}
	for name, test := range spaceTests(base) {
		t.Run(name, func(t *testing.T) {
			o := Options{Out: "/out/a/", Cache: Cache{Dir: "/cache"}}
			test.spec(&o)
			got, err := needs(o, images, nil, 30*k, cached(test.cached...))
			if err != nil {
				t.Fatal(err)
			}
			if test.out == 0 {
				if len(got) > 0 {
					t.Errorf("got %+v, want no needs", got)
				}
				return
			}
			if got[0].bytes != test.out || got[0].dir != "/out" {
				t.Errorf("got %+v for the output, want %d bytes in /out", got[0], test.out)
			}
			if kept := got[1:]; len(kept) == 0 && test.cache > 0 || len(kept) == 1 && kept[0].bytes != test.cache {
				t.Errorf("got %+v for the cache, want %d bytes", kept, test.cache)
			}
		})
	}
}

func TestFits(t *testing.T) {
	needs := []need{
		{dir: "/out", what: "the store", bytes: 70}, {dir: "/cache", what: "the cache", bytes: 50, exact: true},
	}
	for name, test := range map[string]struct {
		disks map[string]disk
		want  string // in the error
	}{
		"two disks": {map[string]disk{"/out": {1, 70}, "/cache": {2, 50}}, ""},
		"one disk":  {map[string]disk{"/out": {1, 120}, "/cache": {1, 120}}, ""},
		"one disk that is full": {
			map[string]disk{"/out": {1, 119}, "/cache": {1, 119}},
			"/out: not enough space: the store needs about 70 bytes, the cache needs 50 bytes, and 119 bytes are free",
		},
		"the second of two disks is full": {
			map[string]disk{"/out": {1, 70}, "/cache": {2, 49}},
			"/cache: not enough space: the cache needs 50 bytes, and 49 bytes are free",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := fits(needs, func(dir string) (disk, error) { return test.disks[dir], nil })
			if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrSpace) ||
				!strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if d, err := diskOf(filepath.Join(t.TempDir(), "not", "there")); err != nil || d.free <= 0 {
		t.Errorf("got %+v, %v; want the free space of the parent folder", d, err)
	}
}

// k makes the sizes multiples of 3 and 127, so that a third and a hash tree of them are whole numbers.
const k = 3 * 127 * 32

type spaceTest struct {
	spec   func(*Options)
	cached []string
	out    int64
	cache  int64
}

func spaceTests(base string) map[string]spaceTest {
	const a, b = 100 * k * 2 / 3, 15 * k // packed
	const packed = 1000*k*2/3 + a + b
	image := func(packed int64) int64 { return (packed + 10*k) * 128 / 127 } // with pinbox's own files and the hash tree
	folder := func(o *Options) { o.Appliance.Spec.Store.Format = format.Dir }
	return map[string]spaceTest{
		"empty cache":         {func(*Options) {}, nil, image(packed) + 10*k, packed},
		"one layer is cached": {func(*Options) {}, []string{"base"}, image(1200*k+a+b) + 10*k, a + b},
		"all are cached":      {func(*Options) {}, []string{"base", "a", "b"}, 0, 0},
		"no cache":            {func(o *Options) { o.Cache.Dir = "" }, nil, image(packed) + 10*k + 1000*k*2/3, 0},
		"with an ISO": {
			func(o *Options) { o.Appliance.Spec.ISO.Base = base }, nil, 500 + 2*image(packed) + 10*k, packed,
		},
		"a folder": {folder, nil, 2530 * k, 0},
		"a folder with a lock": {func(o *Options) {
			folder(o)
			base := gz("base", 1000*k)
			base.UnpackedSize = 3000 * k
			o.Lock = pinset.Lock{Images: []pinset.LockedImage{{Layers: []*pinset.LockedLayer{base}}}}
		}, nil, 3530 * k, 0},
		"an ISO with the store on another disk": {
			func(o *Options) { o.Appliance.Spec.ISO.Base = base; o.Appliance.Spec.Node.Store.VolumeLabel = "X" }, nil,
			500 + image(packed) + 10*k, packed,
		},
	}
}

// Partial blobs are removed only if there is too little space, which is then looked at again. A bug was that cmp.Or of
// errors calls both of its functions.
func TestFitsPruned(t *testing.T) {
	needs := []need{{dir: "/cache", what: "the cache", bytes: 50, exact: true}}
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		before, after int64 // free space
		prune, want   error
		again         bool // it is looked at after pruning
	}{
		"enough":               {before: 50},
		"enough once pruned":   {before: 49, after: 50, again: true},
		"too little":           {before: 40, after: 49, want: ErrSpace, again: true},
		"pruning is no answer": {before: 40, after: 50, prune: failed, want: failed},
	} {
		t.Run(name, func(t *testing.T) {
			pruned, again := false, false
			err := fitsPruned(needs, func(string) (disk, error) {
				if !pruned {
					return disk{free: test.before}, nil
				}
				again = true
				return disk{free: test.after}, nil
			}, func() error {
				pruned = true
				return test.prune
			})
			if !errors.Is(err, test.want) || pruned != (test.before < 50) || again != test.again {
				t.Errorf("got %v, pruned %v, looked again %v; want %v, %v, %v",
					err, pruned, again, test.want, test.before < 50, test.again)
			}
		})
	}
}
