package stores

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The kernel escapes a space, a tab, a newline and a backslash in a path.
func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"/a": "/a", `/a\040b`: "/a b", `\134\011x`: "\\\tx", `/a\040`: "/a ", `/a\04`: `/a\04`,
		`/a\9bcd`: `/a\9bcd`, `\`: `\`,
	} {
		t.Run(text, func(t *testing.T) {
			if got := unescape(text); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// fakeMounter counts the unmounts and does what a test wants instead.
type fakeMounter struct {
	Mounter
	unmounts int
	unmount  func(where string) error
}

func (m *fakeMounter) Unmount(_ context.Context, where string) error {
	m.unmounts++
	return m.unmount(where)
}

// Everything at a mount point is unmounted, also what a service manager does not know or cannot unmount.
func TestUnmountAll(t *testing.T) {
	fixtures.NeedRoot(t)
	failed := errors.New("unit is in use")
	failing := func(where string) error { return errors.Join(failed, unmount(where)) }
	twice := func(where string) error { return errors.Join(unmount(where), unmount(where)) }
	for name, test := range map[string]struct {
		mounts    int
		unmount   func(where string) error
		cancelled bool
		calls     int
		want      error
	}{
		"nothing":                    {0, unmount, false, 0, nil},
		"one mount":                  {1, unmount, false, 1, nil},
		"three mounts":               {3, unmount, false, 1, nil},
		"no mount of a unit":         {1, func(string) error { return nil }, false, maxTries, nil},
		"a mount in use":             {1, func(string) error { return failed }, false, 1, nil},
		"a mount in use, cancelled":  {1, func(string) error { return failed }, true, 1, failed},
		"unmounted by another":       {1, failing, false, 1, nil},
		"two, unmounted by another":  {2, failing, false, 1, nil},
		"unmounted by another first": {1, twice, false, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			where := t.TempDir()
			for range test.mounts {
				if err := unix.Mount("tmpfs", where, "tmpfs", 0, ""); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() {
				for unmount(where) == nil { // until nothing is mounted
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancelled {
				cancel()
			}
			m := &fakeMounter{unmount: test.unmount}
			if err := unmountAll(ctx, m, where); !errors.Is(err, test.want) || m.unmounts != test.calls {
				t.Errorf("got %v after %d unmounts, want %v after %d", err, m.unmounts, test.want, test.calls)
			}
			if err := unmount(where); (test.want == nil) != errors.Is(err, unix.EINVAL) {
				t.Errorf("one more unmount: got %v, want that nothing was mounted: %v", err, test.want == nil)
			}
		})
	}
}

func TestMountOptions(t *testing.T) {
	for name, test := range map[string]struct {
		context string
		extent  Extent
		want    string
	}{
		"a file":       {"", Extent{Size: 9}, "ro,nosuid,nodev,loop"},
		"a medium":     {"", Extent{Offset: 2048, Size: 9}, "ro,nosuid,nodev,loop,offset=2048,sizelimit=9"},
		"with SELinux": {"system_u:s0:c1,c2", Extent{}, `ro,nosuid,nodev,loop,context="system_u:s0:c1,c2"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(mounts{selinuxContext: test.context}.options(test.extent), ","); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The error names the bases by what their users know: the digest of the store, else that of its lock.
func TestMissingBaseIsNamed(t *testing.T) {
	store, lock := digest.FromString("store"), digest.FromString("lock")
	needs := []pinset.Need{{Layer: "layer-a", Link: "A"}, {Layer: "layer-b", Link: "B"}}
	m := mounts{slots: slots{all: []string{t.TempDir()}}}
	bases := []pinset.Base{{Lock: lock, Store: store}, {Lock: lock}}
	_, err := m.bases(Store{}, pinset.Delta{Needs: needs, Bases: bases}, nil)
	want := "2 of 2 layers are missing, such as layer-a; its base is " + Short(store) +
		", or a store of the lock " + Short(lock)
	if !errors.Is(err, ErrNoBase) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %v: %s", err, ErrNoBase, want)
	}
}

// The main store refers to a store by the layers of its images and containers, and by images of containers.
func TestUsersOfAStore(t *testing.T) {
	const id = "0123456789abcdef"
	own := &records{layers: []record{{ID: "own"}}, images: []named{{ID: "image"}}}
	over := []record{{ID: "over", Parent: "own"}}
	for name, test := range map[string]struct {
		own  *records
		main records
		want []string
	}{
		"nothing":               {own, records{layers: []record{{ID: "x", Parent: "y"}}}, nil},
		"an image of its layer": {own, records{images: []named{{ID: id, Layer: "own"}}}, []string{"image 0123456789ab"}},
		"a container of its image": {
			own, records{containers: []named{{ID: id, Image: "image"}}}, []string{"container 0123456789ab"},
		},
		"a container of another image": {own, records{containers: []named{{ID: id, Image: "other"}}}, nil},
		"a container over its layer": {
			own, records{layers: over, containers: []named{{ID: id, Names: []string{"web"}, Layer: "over"}}},
			[]string{"container web"},
		},
		"an image over its layer": {
			own, records{layers: over, images: []named{{ID: id, Names: []string{"app"}, Layer: "over"}}},
			[]string{"image app"},
		},
		"a layer over its layer": {
			own, records{layers: []record{{ID: id, Parent: "own"}}, images: []named{{ID: id, Layer: "z"}},
				containers: []named{{ID: id, Layer: "z"}}}, []string{"layer 0123456789ab"},
		},
		"a missing file, a layer of no store": {
			nil, records{layers: over, containers: []named{{ID: id, Layer: "over"}}}, []string{"container 0123456789ab"},
		},
		"a missing file, a layer of the main store": {nil, records{layers: append(over, record{ID: "own"})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReferences()
			r.own, r.main = test.own, test.main
			var got []string
			for _, user := range r.users() {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(user, "the "), " of CRI-O's main store"))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			r.addOther(records{layers: []record{{ID: "own"}}, images: []named{{ID: "image"}}})
			if got := r.users(); len(got) > 0 {
				t.Errorf("with the same store beside: got %q, want none", got)
			}
		})
	}
}

func TestShort(t *testing.T) {
	whole := digest.FromString("x")
	for d, want := range map[digest.Digest]string{
		whole: whole.Encoded()[:12], "": "",
		"sha256:0123456789ab": "0123456789ab", "sha256:0123456789a": "sha256:0123456789a",
	} {
		if got := Short(d); got != want {
			t.Errorf("%q: got %q, want %q", d, got, want)
		}
	}
}
