package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
)

// hostileImage is an image without layers, whose documents match its record.
type hostileImage struct {
	record    layout.Image
	documents map[string]text
}

// newHostileImage makes the image n with these names.
func newHostileImage(n int, names []string) hostileImage {
	config := fmt.Sprintf(`{"n":%d}`, n)
	manifest := `{"config":{"digest":"` + digest.FromString(config).String() + `"}}`
	i := hostileImage{documents: map[string]text{}, record: layout.Image{
		ID: digest.FromString(config).Encoded(), Digest: digest.FromString(manifest), Names: names,
		BigDataSizes: map[string]int64{}, BigDataDigests: map[string]digest.Digest{},
	}}
	i.add(layout.ConfigKey(i.record.ID), config)
	i.add(layout.ManifestData, manifest)
	i.add(layout.ManifestKey(i.record.Digest), manifest)
	return i
}

// add adds a document.
func (i *hostileImage) add(key, content string) {
	i.record.BigDataNames = append(i.record.BigDataNames, key)
	i.record.BigDataSizes[key], i.record.BigDataDigests[key] = int64(len(content)), digest.FromString(content)
	i.documents[layout.DocumentFile(i.record.ID, key)] = text{head: content}
}

// tags returns n different names.
func tags(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("a.b/c:%d", i))
	}
	return all
}

// Images whose documents match their records, but have far too much in them.
func TestHostileImages(t *testing.T) {
	t.Parallel()
	var named []hostileImage
	for n, all := 0, tags(20*200_000); n < 20; n++ {
		named = append(named, newHostileImage(n, all[n*200_000:][:200_000]))
	}
	indexed := newHostileImage(0, nil)
	for n := range 60 {
		index := fmt.Sprintf(`{"manifests":[%s{}],"n":%d}`, strings.Repeat("{},", 1_390_000), n)
		indexed.add(layout.ManifestKey(digest.FromString(index)), index)
	}
	for name, images := range map[string][]hostileImage{"names": named, "indexes": {indexed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents := map[string]text{}
			var records []layout.Image
			for _, i := range images {
				records = append(records, i.record)
				maps.Copy(documents, i.documents)
			}
			content, err := json.Marshal(records)
			if err != nil {
				t.Fatal(err)
			}
			documents[layout.ImagesFile] = text{head: string(content)}
			attachHostile(t, hostileStore(t, documents))
		})
	}
	t.Run("tags in the lock", func(t *testing.T) {
		t.Parallel()
		zeros := "sha256:" + strings.Repeat("0", 64)
		image := `{"pin":"quay.io/a/%d@` + zeros + `","manifest":"` + zeros + `","config":"` + zeros + `","tags":["%s"]}`
		var all []string
		for n, names := 0, tags(30*30_000); n < 30; n++ {
			all = append(all, fmt.Sprintf(image, n, strings.Join(names[n*30_000:][:30_000], `","`)))
		}
		attachHostile(t, hostileStore(t, map[string]text{
			layout.OwnLock: {head: emptyLock + "[" + strings.Join(all, ",") + "]}"},
		}))
	})
}
