package storage

import (
	"testing"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// `docker buildx --output type=oci` writes the tag alone where others write the name.
func TestNamesInALayout(t *testing.T) {
	for _, test := range []struct{ ref, containerd, want string }{
		{"quay.io/site/app:1", "", "quay.io/site/app:1"},
		{"quay.io/site/app:1", "docker.io/library/app:1", "quay.io/site/app:1"},
		{"1", "quay.io/site/app:1", "quay.io/site/app:1"},
		{"", "quay.io/site/app:1", "quay.io/site/app:1"},
		{"1", "", "1"},
		{"", "", ""},
	} {
		got := layoutName(map[string]string{imgspecv1.AnnotationRefName: test.ref, containerdName: test.containerd})
		if got != test.want {
			t.Errorf("ref.name %q, containerd's %q: got %q, want %q", test.ref, test.containerd, got, test.want)
		}
	}
}
