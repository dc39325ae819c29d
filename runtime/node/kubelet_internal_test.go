package node

import (
	"fmt"
	"testing"

	"github.com/pinbox/pinbox/runtime/cri"
)

func TestConcernedPods(t *testing.T) {
	const name, id = "quay.io/x/a@sha256:1", "1111"
	pod := func(name string, images ...string) cri.Pod { return cri.Pod{Name: name, Images: images} }
	var many []cri.Pod
	for i := range maxPods + 2 {
		many = append(many, pod(fmt.Sprint("n/", i)))
	}
	for _, test := range []struct {
		name string
		pods []cri.Pod
		want string
	}{
		{"none", nil, ""},
		{"by name", []cri.Pod{pod("n/a", name), pod("n/b", "quay.io/x/b")}, "; pods that have it: n/a"},
		{"by ID", []cri.Pod{pod("n/a", "other", id)}, "; pods that have it: n/a"},
		{"without a container", []cri.Pod{pod("n/a"), pod("n/b", id)},
			"; pods that have it: n/b; pods that wait for an image: n/a"},
		{"many", many, "; pods that wait for an image: n/0, n/1, n/2, n/3, n/4, n/5, n/6, n/7, n/8, n/9, and 2 others"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := concerned(test.pods, name, id); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
