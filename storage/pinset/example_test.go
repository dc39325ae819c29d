package pinset_test

import (
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

const twoSets = `apiVersion: machineconfiguration.openshift.io/v1
kind: PinnedImageSet
metadata:
  name: worker
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
  pinnedImages:
  - name: quay.io/site/app@sha256:1111111111111111111111111111111111111111111111111111111111111111
  - name: quay.io/site/db@sha256:2222222222222222222222222222222222222222222222222222222222222222
---
apiVersion: machineconfiguration.openshift.io/v1
kind: PinnedImageSet
metadata:
  name: every-node
spec:
  pinnedImages:
  - name: quay.io/site/db@sha256:2222222222222222222222222222222222222222222222222222222222222222
`

func ExampleDecodeSets() {
	sets, others, err := pinset.DecodeSets(strings.NewReader(twoSets), "sets.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(sets), "sets,", others, "objects of other kinds")
	for _, set := range sets {
		fmt.Printf("%s (%s), pool %q: %d images\n", set.Name, set.Origin, set.Labels[pinset.RoleLabel], len(set.Images))
	}
	// Output:
	// 2 sets, 0 objects of other kinds
	// worker (sets.yaml:1), pool "worker": 2 images
	// every-node (sets.yaml:12), pool "": 1 images
}

// A tag pins nothing: CRI-O compares the pin with the image's name, and such a name
// moves.
func ExampleDecodeSets_tag() {
	_, _, err := pinset.DecodeSets(strings.NewReader(strings.Replace(twoSets, "@sha256:"+strings.Repeat("1", 64), ":v1",
		1)),
		"sets.yaml")
	fmt.Println(err)
	// Output:
	// sets.yaml:9: set "worker": image "quay.io/site/app:v1": not a digest reference
}

// What several sets ask for is each image once.
func ExampleUnion() {
	sets, _, _ := pinset.DecodeSets(strings.NewReader(twoSets), "sets.yaml")
	for _, image := range pinset.Union(sets...) {
		fmt.Println(image.Repository, image.Digest.Encoded()[:12])
	}
	// Output:
	// quay.io/site/app 111111111111
	// quay.io/site/db 222222222222
}
