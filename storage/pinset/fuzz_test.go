package pinset_test

import (
	"bytes"
	"testing"

	"github.com/pinbox/pinbox/storage/pinset"
)

// A PinnedImageSet has images with digests, and its name is that of a file.
func FuzzDecodeSets(f *testing.F) {
	f.Add([]byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {name: a}\n" +
		"spec: {pinnedImages: [{name: 'quay.io/a@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea'}]}\n"))
	f.Add([]byte("kind: List\nitems: []\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sets, _, err := pinset.DecodeSets(bytes.NewReader(text), "sets.yaml")
		if err != nil {
			return
		}
		for _, s := range sets {
			if !pinset.ValidName(s.Name) || len(s.Images) == 0 {
				t.Errorf("got the set %q of %d images, want a valid name and images", s.Name, len(s.Images))
			}
			for _, img := range s.Images {
				_ = img.Digest.Encoded() // panics if it is not a digest
			}
		}
	})
}
