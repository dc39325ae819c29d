package look

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// The layers of an image are those of its own configuration, whatever the lock says.
func TestLayersOfAnImage(t *testing.T) {
	low, top := digest.FromString("low"), digest.FromString("top")
	config := func(diffIDs ...digest.Digest) string {
		text := `{"rootfs":{"diff_ids":[`
		for i, d := range diffIDs {
			text += fmt.Sprintf("%s%q", ","[:min(i, 1)], d)
		}
		return text + "]}}"
	}
	for name, test := range map[string]struct {
		config, written string
		lock            []digest.Digest
		lacks           digest.Digest // whose folder the store lacks
		want            error
	}{
		"right":                   {config(low, top), config(low, top), []digest.Digest{low, top}, "", nil},
		"without layers":          {config(), config(), nil, "", nil},
		"another configuration":   {config(low, top), config(low), []digest.Digest{low, top}, "", release.ErrVerify},
		"no configuration":        {config(low, top), "", []digest.Digest{low, top}, "", release.ErrVerify},
		"another lock":            {config(low, top), config(low, top), []digest.Digest{low}, "", release.ErrVerify},
		"a lock in other order":   {config(low, top), config(low, top), []digest.Digest{top, low}, "", ErrNoLayer},
		"a layer that is nowhere": {config(low), config(low), []digest.Digest{low}, low, ErrNoLayer},
	} {
		t.Run(name, func(t *testing.T) {
			img := pinset.LockedImage{Pin: "quay.io/a@" + string(low), Config: digest.FromString(test.config)}
			for _, d := range test.lock {
				img.Layers = append(img.Layers, &pinset.LockedLayer{DiffID: d})
			}
			files := fstest.MapFS{}
			for _, id := range []string{layout.LayerID("", low), layout.LayerID(layout.LayerID("", low), top)} {
				if test.lacks == "" || id != test.lacks.Encoded() {
					files[folderOf(id)] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
				}
			}
			if test.written != "" {
				id := img.Config.Encoded()
				files[layout.DocumentFile(id, layout.ConfigKey(id))] = &fstest.MapFile{Data: []byte(test.written)}
			}
			im := &Images{documents: layout.Open(files), stores: []fs.FS{files}}
			all, _, err := im.layers(img)
			if !errors.Is(err, test.want) || err == nil && len(all) != len(test.lock) {
				t.Errorf("got %d layers, %v; want %d, %v", len(all), err, len(test.lock), test.want)
			}
		})
	}
}
