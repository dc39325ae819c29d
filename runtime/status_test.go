package runtime_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

func image(name string) pinset.Image {
	return pinset.Image{Repository: "quay.io/x/" + name, Digest: digest.FromString(name)}
}

func TestJudge(t *testing.T) {
	a, b, c := image("a"), image("b"), image("c")
	worker, infra := pinset.Set{Name: "worker", Images: []pinset.Image{b, a}}, pinset.Set{Name: "infra", Images: []pinset.Image{b, c}}
	for name, test := range map[string]struct {
		sets    []pinset.Set
		present map[pinset.Image]bool
		err     error
		healthy bool
		says    []string
	}{
		"all pinned":         {[]pinset.Set{worker, infra}, map[pinset.Image]bool{a: true, b: true, c: true}, nil, true, nil},
		"others beside":      {[]pinset.Set{worker}, map[pinset.Image]bool{a: true, b: true, c: false}, nil, true, nil},
		"no sets":            {nil, nil, nil, true, nil},
		"one missing":        {[]pinset.Set{worker, infra}, map[pinset.Image]bool{a: true, b: true}, nil, false, []string{c.String() + " is not on the node"}},
		"one not pinned":     {[]pinset.Set{worker}, map[pinset.Image]bool{a: true, b: false}, nil, false, []string{b.String() + " is not pinned"}},
		"a set that is none": {[]pinset.Set{worker}, map[pinset.Image]bool{a: true, b: true}, errors.New("x.yaml:1: broken"), false, []string{"x.yaml:1: broken"}},
	} {
		s := runtime.Judge(test.sets, test.present, test.err)
		if s.Healthy() != test.healthy {
			t.Errorf("%s: healthy %v: %+v", name, s.Healthy(), s.Conditions)
		}
		for _, want := range test.says {
			said := strings.Join(s.Errors, "\n")
			for _, set := range s.Sets {
				said += "\n" + set.Error
			}
			if !strings.Contains(said, want) {
				t.Errorf("%s: says %q, not %q", name, said, want)
			}
		}
	}
}

// An image of two sets is one image, and counts in both.
func TestJudgeCountsSharedImages(t *testing.T) {
	a, b := image("a"), image("b")
	s := runtime.Judge([]pinset.Set{{Name: "one", Images: []pinset.Image{b, a}}, {Name: "two", Images: []pinset.Image{b}}},
		map[pinset.Image]bool{b: true}, nil)
	if len(s.Images) != 2 || s.Images[0].State != runtime.Missing || s.Images[1].State != runtime.Pinned || len(s.Images[1].Sets) != 2 {
		t.Errorf("images %+v", s.Images)
	}
	if one, two := s.Sets[0], s.Sets[1]; one != (runtime.SetStatus{Name: "one", Images: 2, Pinned: 1, Missing: 1, Error: a.String() + " is not on the node"}) || two != (runtime.SetStatus{Name: "two", Images: 1, Pinned: 1}) {
		t.Errorf("sets %+v", s.Sets)
	}
}
