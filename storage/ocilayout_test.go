package storage

import (
	"testing"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// `docker buildx --output type=oci` writes only the tag as ref.name.
func TestLayoutName(t *testing.T) {
	for _, test := range []struct{ ref, containerd, want string }{
		{"quay.io/site/app:1", "", "quay.io/site/app:1"},
		{"quay.io/site/app:1", "docker.io/library/app:1", "quay.io/site/app:1"},
		{"1", "quay.io/site/app:1", "quay.io/site/app:1"},
		{"", "quay.io/site/app:1", "quay.io/site/app:1"},
		{"1", "", "1"},
		{"", "", ""},
	} {
		t.Run(test.ref+" and "+test.containerd, func(t *testing.T) {
			got := layoutName(map[string]string{imgspecv1.AnnotationRefName: test.ref, containerdName: test.containerd})
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
