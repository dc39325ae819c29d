package format_test

import (
	"slices"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/layout"
)

// Every format is found by its name and by its files, and no two share one.
func TestTable(t *testing.T) {
	var files []string
	for _, name := range format.Names() {
		t.Run(name, func(t *testing.T) {
			f := format.Of(format.Name(name))
			if f == nil || string(f.Describe().Name) != name {
				t.Fatalf("got %v, want the format %s", f, name)
			}
			about := f.Describe()
			sums := map[string]string{about.File: about.File, about.Delta: about.Delta}
			if about.Marker != "" {
				sums = map[string]string{about.File + "/" + about.Marker: about.File}
			}
			for file, want := range sums {
				if file == "" {
					continue
				}
				got, store := format.Find(layout.Sums{artifact.LockFile: "0", file: "1"})
				if got == nil || got.Describe().Name != about.Name || store != want {
					t.Errorf("got %v and the store %q of sums of %s, want %s and %q", got, store, file, name, want)
				}
				if slices.Contains(files, file) {
					t.Errorf("got %s in two formats, want it in one", file)
				}
				files = append(files, file)
			}
			if about.Delta != "" && !about.Mounted {
				t.Error("got a delta of a format that nodes do not mount, want none")
			}
		})
	}
	if f := format.Of(""); f == nil || f.Describe().Name != format.Squashfs {
		t.Errorf("got %v without a name, want squashfs", f)
	}
	if f := format.Of("zip"); f != nil {
		t.Errorf("got %v as zip, want none", f)
	}
	if f, store := format.Find(layout.Sums{artifact.LockFile: "0"}); f != nil || store != "" {
		t.Errorf("got %v and %q of a folder without a store, want none", f, store)
	}
}

// What a store needs before it is written, without and with a cache.
func TestNeeds(t *testing.T) {
	sizes := format.Sizes{Packed: 100, Cached: 40, Largest: 30, Unpacked: 300, Own: 9}
	cached, all := sizes, sizes
	cached.HasCache, all.HasCache, all.Cached = true, true, 100
	for name, c := range map[string]struct {
		format format.Name
		sizes  format.Sizes
		want   format.Needs
	}{
		"squashfs":           {format.Squashfs, sizes, format.Needs{Store: 2 * 4096, Temporary: 33}},
		"squashfs, cached":   {format.Squashfs, cached, format.Needs{Store: 2 * 4096, Temporary: 3, Cache: 60}},
		"squashfs, all kept": {format.Squashfs, all, format.Needs{}},
		"tar":                {format.Tar, sizes, format.Needs{Store: 309, Temporary: 100}},
		"tar, cached":        {format.Tar, cached, format.Needs{Store: 309, Cache: 60}},
		"tar, all kept":      {format.Tar, all, format.Needs{Store: 309}},
		"dir":                {format.Dir, sizes, format.Needs{Store: 309}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := format.Of(c.format).Needs(c.sizes); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
