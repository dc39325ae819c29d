package crio_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/pinset"
)

func images(t *testing.T, pins ...string) []pinset.Image {
	t.Helper()
	var set pinset.Set
	for _, pin := range pins {
		img, err := pinset.ParseImage(pin)
		if err != nil {
			t.Fatal(err)
		}
		set.Images = append(set.Images, img)
	}
	return pinset.Union(set)
}

// The images in an example of the OpenShift documentation.
var documented = []string{
	"quay.io/openshift-release-dev/ocp-release@sha256:61eae2d261e54d1b8a0e05f6b5326228b00468364563745eed88460af04f909b",
	"quay.io/openshift-release-dev/ocp-release@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea",
	"quay.io/openshift-release-dev/ocp-release@sha256:513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e",
	"quay.io/openshift-release-dev/ocp-release@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea",
}

// The drop-in equals the one of the Machine Config Operator, which encodes a structure with the same
// library.
func TestPinnedImagesGolden(t *testing.T) {
	got := crio.RenderPinned(images(t, documented...))
	fixtures.Golden(t, "50-pinned-images", got)
	type image struct {
		PinnedImages []string `toml:"pinned_images,omitempty"`
	}
	var config struct {
		Crio struct {
			Image image `toml:"image"`
		} `toml:"crio"`
	}
	if err := toml.Unmarshal(got, &config); err != nil {
		t.Fatal(err)
	}
	if n := len(config.Crio.Image.PinnedImages); n != 3 {
		t.Errorf("got %d images, want 3", n)
	}
	var want bytes.Buffer
	if err := toml.NewEncoder(&want).Encode(config); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want.Bytes(), got) {
		t.Errorf("got\n%s\nwant\n%s", got, want.Bytes())
	}
}

func TestCredentialsGolden(t *testing.T) {
	got := crio.RenderCredentials()
	fixtures.Golden(t, "50-pinbox-pull-secret", got)
	var config struct {
		Crio struct {
			Image struct {
				AuthFile string `toml:"global_auth_file"`
			} `toml:"image"`
		} `toml:"crio"`
	}
	if err := toml.Unmarshal(got, &config); err != nil || config.Crio.Image.AuthFile != crio.PullSecretPath {
		t.Errorf("got %+v, %v, want %s", config, err, crio.PullSecretPath)
	}
}

func TestStoresGolden(t *testing.T) {
	for name, repair := range map[string]bool{"50-pinbox-stores": false, "50-pinbox-stores-repair": true} {
		got := crio.RenderStores(crio.Slots(), repair)
		fixtures.Golden(t, name, got)
		var config struct {
			Crio struct {
				StorageOption  []string `toml:"storage_option"`
				InternalRepair *bool    `toml:"internal_repair"`
			} `toml:"crio"`
		}
		if err := toml.Unmarshal(got, &config); err != nil {
			t.Fatal(err)
		}
		var stores []string // an option each
		for _, option := range config.Crio.StorageOption {
			store, _ := strings.CutPrefix(option, "overlay.imagestore=")
			stores = append(stores, store)
		}
		if c := config.Crio; !slices.Equal(stores, crio.Slots()) || c.InternalRepair == nil || *c.InternalRepair != repair {
			t.Errorf("%s: got %+v, want 8 stores, internal_repair %v", name, c, repair)
		}
	}
}
