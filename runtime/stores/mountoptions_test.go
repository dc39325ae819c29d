package stores

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/pinset"
)

func TestMountOptions(t *testing.T) {
	for name, test := range map[string]struct {
		context string
		extent  mount.Extent
		want    string
	}{
		"a file":       {"", mount.Extent{Size: 9}, "ro,nosuid,nodev,loop"},
		"a medium":     {"", mount.Extent{Offset: 2048, Size: 9}, "ro,nosuid,nodev,loop,offset=2048,sizelimit=9"},
		"with SELinux": {"system_u:s0:c1,c2", mount.Extent{}, `ro,nosuid,nodev,loop,context="system_u:s0:c1,c2"`},
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
