package layout_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What the limits let through, a reader of the store takes; of what it would refuse the build ends before it fetches
// a layer. A bug was to build stores that each node refused.
func TestLimitsOfWhatIsBuilt(t *testing.T) {
	sum := digest.FromString("x")
	images := func(n int, change func(*pinset.LockedImage)) (all []pinset.LockedImage) {
		for i := range n {
			img := pinset.LockedImage{
				Pin: fmt.Sprintf("quay.io/site/app-%06d@%s", i, sum), Manifest: sum, Config: sum, From: []string{"list"},
			}
			if change != nil {
				change(&img)
			}
			all = append(all, img)
		}
		return all
	}
	tags := func(n int) func(*pinset.LockedImage) {
		return func(img *pinset.LockedImage) {
			for i := range n {
				img.Tags = append(img.Tags, fmt.Sprintf("quay.io/site/app:%08d", i))
			}
		}
	}
	layers := func(n int) func(*pinset.LockedImage) {
		return func(img *pinset.LockedImage) {
			for range n {
				img.Layers = append(img.Layers, &pinset.LockedLayer{
					Digest: sum, DiffID: sum, Size: 1, MediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
				})
			}
		}
	}
	for name, c := range map[string]struct {
		images    []pinset.LockedImage
		pins      int
		documents int64
		want      string
	}{
		"release of OpenShift":    {images: images(200, layers(6)), pins: 200, documents: 10 << 20},
		"500 layers":              {images: images(1, layers(500)), pins: 1},
		"10,000 tags of an image": {images: images(1, tags(10_000))},
		"30,000 tags of an image": {images: images(1, tags(30_000)), want: "with 30000 tags"},
		"set for which a node has no memory": {
			images: images(1, nil), pins: 2400, want: "set worker: larger than a node reads: its 2400 images take",
		},
		"configurations": {images: images(70, nil), documents: 280 << 20, want: "have 280 MiB, and the limit is 256"},
		"entries":        {images: images(101, tags(3000)), want: "the lock has 303101 entries, and the limit is 300000"},
		"lock":           {images: images(4000, layers(60)), want: "lock is larger than a node reads: the limit is 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			set := pinset.Set{Name: "worker"}
			for i := range c.pins {
				img, err := pinset.ParseImage(fmt.Sprintf("quay.io/site/a-repository-with-a-name/app-%06d@%s", i, sum))
				if err != nil {
					t.Fatal(err)
				}
				set.Images = append(set.Images, img)
			}
			lock := pinset.Lock{Version: pinset.LockVersion, Platform: "linux/amd64", Images: c.images}
			err := layout.CheckLimits(lock, []pinset.Set{set}, c.documents)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := lock.Encode(&text); err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{
				layout.OwnLock:                       {Data: text.Bytes()},
				layout.OwnSets + "/" + "worker.yaml": {Data: set.Render()},
			}
			store := layout.Open(files)
			if _, err := store.Lock(); err != nil {
				t.Errorf("a reader refuses the lock: %v", err)
			}
			if _, err := store.Sets(); err != nil && c.pins > 0 || errors.Is(err, layout.ErrTooLarge) {
				t.Errorf("a reader refuses the sets: %v", err)
			}
		})
	}
}
