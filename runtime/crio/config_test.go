package crio_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/runtime/crio"
)

const pinsAB = "[crio.image]\npinned_images = [\"a\", \"b\"]\n"

var configs = map[string]struct {
	files map[string]string
	want  crio.Config
	err   string // its text; "" for none
}{
	"nothing": {nil, crio.Config{InternalRepair: true}, ""},
	"drop-in of pinbox": {
		map[string]string{"crio.conf.d/50-pinned-images": pinsAB}, crio.Config{PinnedImages: []string{"a", "b"},
			PinnedBy: crio.PinnedImagesPath, InternalRepair: true}, "",
	},
	"a later file wins": {map[string]string{
		"crio.conf.d/50-pinned-images": pinsAB, "crio.conf.d/99-admin.conf": "[crio.image]\npinned_images = [\"c\"]\n",
	},
		crio.Config{PinnedImages: []string{"c"}, PinnedBy: "/etc/crio/crio.conf.d/99-admin.conf", InternalRepair: true}, ""},
	"a later empty list wins": {map[string]string{
		"crio.conf.d/50-pinned-images": pinsAB, "crio.conf.d/99": "[crio.image]\npinned_images = []\n",
	},
		crio.Config{PinnedImages: []string{}, PinnedBy: "/etc/crio/crio.conf.d/99", InternalRepair: true}, ""},
	"a later file without the key": {map[string]string{
		"crio.conf.d/50-pinned-images": pinsAB, "crio.conf.d/99": "[crio.runtime]\nselinux = true\n",
	},
		crio.Config{PinnedImages: []string{"a", "b"}, PinnedBy: crio.PinnedImagesPath, InternalRepair: true}, ""},
	"crio.conf comes first": {map[string]string{
		"crio.conf":                    "[crio]\ninternal_repair = true\n[crio.image]\npinned_images = [\"c\"]\n",
		"crio.conf.d/50-pinned-images": pinsAB, "crio.conf.d/50-pinbox-stores": "[crio]\ninternal_repair = false\n" +
			"storage_option = [\"x\"]\n",
	},
		crio.Config{PinnedImages: []string{"a", "b"}, PinnedBy: crio.PinnedImagesPath, InternalRepairBy: crio.StoresPath,
			Earlier: []string{"c"}, EarlierBy: "/etc/crio/crio.conf", StorageOptions: []string{"x"}}, ""},
	"the last earlier file counts": {map[string]string{
		"crio.conf.d/10": "[crio.image]\npinned_images = [\"c\"]\n", "crio.conf.d/50-pinned/x": "[crio.image]\npinned_images = [\"d\"]\n",
		"crio.conf.d/50-pinned-images": pinsAB,
	},
		crio.Config{PinnedImages: []string{"a", "b"}, PinnedBy: crio.PinnedImagesPath, InternalRepair: true,
			Earlier: []string{"d"}, EarlierBy: "/etc/crio/crio.conf.d/50-pinned/x"}, ""},
	"repair set back": {map[string]string{
		"crio.conf.d/50-pinbox-stores": "[crio]\ninternal_repair = false\nstorage_option = [\"x\"]\n",
		"crio.conf.d/99":               "[crio]\ninternal_repair = true\nstorage_option = [\"y\"]\n",
	},
		crio.Config{InternalRepair: true, InternalRepairBy: "/etc/crio/crio.conf.d/99", StorageOptions: []string{"x", "y"}},
		""},
	"backups and folders count": {map[string]string{
		"crio.conf.d/50-pinned-images": pinsAB, "crio.conf.d/.50-old~": pinsAB,
		"crio.conf.d/zz/deep": "[crio.image]\npinned_images = [\"c\"]\n",
	},
		crio.Config{PinnedImages: []string{"c"}, PinnedBy: "/etc/crio/crio.conf.d/zz/deep", InternalRepair: true,
			Earlier: []string{"a", "b"}, EarlierBy: "/etc/crio/crio.conf.d/.50-old~"}, ""},
	"no table": {map[string]string{"crio.conf.d/99-upgrade-pin": "pinned_images = [\"a\"]\n"},
		crio.Config{InternalRepair: true, Ineffective: []string{"/etc/crio/crio.conf.d/99-upgrade-pin"}}, ""},
	"broken backup": {map[string]string{"crio.conf.d/50-pinned-images": pinsAB, "crio.conf.d/99-bad~": "[crio"},
		crio.Config{PinnedImages: []string{"a", "b"}, PinnedBy: crio.PinnedImagesPath, InternalRepair: true},
		"/etc/crio/crio.conf.d/99-bad~"},
	"a lone star": {map[string]string{"crio.conf.d/99": "[crio.image]\npinned_images = [\"*\"]\n"},
		crio.Config{PinnedImages: []string{"*"}, PinnedBy: "/etc/crio/crio.conf.d/99", InternalRepair: true}, "crashes it"},
	"a lone star that another list replaces": {map[string]string{
		"crio.conf.d/10": "[crio.image]\npinned_images = [\"*\"]\n", "crio.conf.d/50-pinned-images": pinsAB,
	},
		crio.Config{PinnedImages: []string{"a", "b"}, PinnedBy: crio.PinnedImagesPath, InternalRepair: true,
			Earlier: []string{}, EarlierBy: "/etc/crio/crio.conf.d/10"}, ""},
	"options of pulls": {map[string]string{
		"crio.conf":      "[crio.image]\nglobal_auth_file = \"/a\"\nbig_files_temporary_dir = \"/b\"\n",
		"crio.conf.d/60": "[crio.image]\nglobal_auth_file = \"/c\"\ninsecure_registries = [\"d\"]\n",
	},
		crio.Config{InternalRepair: true, AuthFile: "/c", BigFiles: "/b", Insecure: []string{"d"}}, ""},
}

func TestReadConfig(t *testing.T) {
	for name, test := range configs {
		t.Run(name, func(t *testing.T) {
			etc := fstest.MapFS{}
			for file, content := range test.files {
				etc[file] = &fstest.MapFile{Data: []byte(content)}
			}
			got, err := crio.ReadConfig(etc)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if test.err == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
			} else if !errors.Is(err, crio.ErrConfig) || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

func TestCheckPins(t *testing.T) {
	wanted := images(t, documented...)
	pinned := string(crio.RenderPinned(wanted))
	stores := string(crio.RenderStores(crio.Slots(), false))
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"as pinbox writes it": {
			map[string]string{"crio.conf.d/50-pinned-images": pinned, "crio.conf.d/50-pinbox-stores": stores}, nil,
		},
		"more pins": {
			map[string]string{"crio.conf.d/99": strings.Replace(pinned, "[\"", "[\"quay.io/more\", \"", 1),
				"crio.conf.d/50-pinbox-stores": stores}, nil,
		},
		"no pins": {nil, []string{"no file of /etc/crio pins images"}},
		"overridden": {
			map[string]string{"crio.conf.d/50-pinned-images": pinned,
				"crio.conf.d/99-admin": "[crio.image]\npinned_images = []\n"}, []string{
				"/etc/crio/crio.conf.d/99-admin comes later than /etc/crio/crio.conf.d/50-pinned-images", "3 of 3",
			},
		},
		"globs of an administrator": { // as CRI-O compares them
			map[string]string{"crio.conf.d/50-pinned-images": pinned,
				"crio.conf.d/99": "[crio.image]\npinned_images = [\"QUAY.io/*\", \"*openshift*\", \"registry.example.com/*\"]\n"}, nil,
		},
		"globs of other images": {
			map[string]string{"crio.conf.d/50-pinned-images": pinned,
				"crio.conf.d/99": "[crio.image]\npinned_images = [\"docker.io/*\", \"*cilium*\", \"quay.io\"]\n"}, []string{"3 of 3"},
		},
		"no table": {
			map[string]string{"crio.conf.d/50-pinned-images": pinned, "crio.conf.d/99": "pinned_images = []\n"},
			[]string{"/etc/crio/crio.conf.d/99: pinned_images has no effect"},
		},
		"repair by a file": {
			map[string]string{"crio.conf.d/50-pinned-images": pinned, "crio.conf.d/50-pinbox-stores": stores,
				"crio.conf.d/99": "[crio]\ninternal_repair = true\n"}, []string{
				"internal_repair is true, by /etc/crio/crio.conf.d/99",
			},
		},
		"repair by default": {
			map[string]string{"crio.conf.d/50-pinned-images": pinned, "crio.conf.d/60": "[crio]\nstorage_option = " +
				"[\"overlay.imagestore=/var/lib/pinbox/stores/0\"]\n"}, []string{"by CRI-O's default"},
		},
		"repair without a store": {map[string]string{"crio.conf.d/50-pinned-images": pinned}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			etc := fstest.MapFS{}
			for file, content := range test.files {
				etc[file] = &fstest.MapFile{Data: []byte(content)}
			}
			c, err := crio.ReadConfig(etc)
			if err != nil {
				t.Fatal(err)
			}
			err = c.CheckPins(wanted)
			if (err == nil) != (test.want == nil) {
				t.Errorf("got %v, want an error: %v", err, test.want != nil)
			}
			for _, want := range test.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// Additional image stores are read from every form of the option that containers/storage accepts.
func TestImageStoresOfTheOptions(t *testing.T) {
	config := crio.Config{
		StorageOptions: []string{
			"overlay.imagestore=/a", "additionalimagestore=/b,/c", "overlay.mountopt=nodev", ".imagestore=/d",
		},
	}
	if got := strings.Join(config.ImageStores(), " "); got != "/a /b /c" {
		t.Errorf("got %q, want /a /b /c", got)
	}
}
