package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pinbox/pinbox/runtime/rollout"
	"github.com/pinbox/pinbox/storage/pinset"
)

const pinned = "quay.io/x/app@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"

// parseSet reads a set as UID:GENERATION, with the words label and previous.
func parseSet(t *testing.T, text string) Set {
	t.Helper()
	s := Set{Name: "s", Images: []string{pinned}}
	fields := strings.Split(text, ":")
	s.UID = fields[0]
	if _, err := fmt.Sscan(fields[1], &s.Generation); err != nil {
		t.Fatal(err)
	}
	for _, word := range fields[2:] {
		switch word {
		case "label":
			s.Rollout = "r"
		case "previous":
			s.previous = &Content{Generation: 1, Images: []string{pinned}}
		}
	}
	return s
}

// What counts of a set while a rollout holds its generation back: the generation that does, and that on a managed
// node.
func TestHeldSets(t *testing.T) {
	for name, test := range map[string]struct {
		steps         string // sets of the API in their order; +UID:GENERATION is released
		counts, other int64
		held          bool
	}{
		"no rollout":               {"u:5 u:6", 6, 6, false},
		"held":                     {"u:5 u:6:label", 5, 6, true},
		"released":                 {"u:5 u:6:label +u:6", 6, 6, false},
		"another one is released":  {"u:5 u:6:label +u:5", 5, 6, true},
		"released once, for good":  {"u:5 u:6:label +u:6 u:6:label", 6, 6, false},
		"held, and listed again":   {"u:5 u:6:label u:6:label", 5, 6, true},
		"held twice":               {"u:5 u:6:label u:7:label", 5, 7, true},
		"held again":               {"u:5 u:6:label +u:6 u:7:label", 6, 7, true},
		"the label alone":          {"u:5 u:5:label", 5, 5, false},
		"rolled back":              {"u:5 u:6:label u:7", 7, 7, false},
		"new on the node":          {"u:6:label", 0, 6, true},
		"new, with what was":       {"u:6:label:previous", 1, 6, true},
		"new, and what was later":  {"u:6:label u:7:label:previous", 1, 7, true},
		"what the node had counts": {"u:5 u:6:label:previous", 5, 6, true},
		"made again":               {"u:5:label +u:5 v:5:label", 5, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			k, f := Known{}, follower{}
			f.waves.followed, f.waves.place = true, 7
			for step := range strings.FieldsSeq(test.steps) {
				step, released := strings.CutPrefix(step, "+")
				s := parseSet(t, step)
				if !released {
					k.put(s)
					continue
				}
				f.known = k
				f.waves.rollouts = map[string]rollout.Rollout{"r": {Status: rollout.Status{
					Sets: []rollout.Target{s.target()}, Released: 7,
				}}}
				f.followWaves(t.Context())
			}
			counts := func(managed bool) (generation int64) {
				sets, errs := k.Decode(managed)
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				for _, s := range sets {
					generation = s.Generation
				}
				return generation
			}
			if got, other := counts(false), counts(true); got != test.counts || other != test.other {
				t.Errorf("got generation %d, and %d on a managed node, want %d and %d", got, other, test.counts, test.other)
			}
			if got := len(k.HeldBack()) > 0; got != test.held {
				t.Errorf("got %+v, want a set that is held: %v", k.HeldBack(), test.held)
			}
			if err := k.Sets[0].check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// While a rollout releases a few of many nodes, these report as soon as nodes of a small cluster do.
func TestReportingInAWave(t *testing.T) {
	all := rollout.Counts{Total: 1000, Released: 1000, Ready: 100}
	for name, test := range map[string]struct {
		set    string
		status rollout.Status
		want   int64
	}{
		"no rollout":              {"u:6", rollout.Status{}, 1000},
		"a canary":                {"u:6:label", rollout.Status{Released: 7, Nodes: rollout.Counts{Total: 1000, Released: 1}}, 1},
		"a wave":                  {"u:6:label", rollout.Status{Released: 9, Nodes: rollout.Counts{Total: 1000, Released: 100, Ready: 1}}, 99},
		"the rest":                {"u:6:label", rollout.Status{Released: 9, Nodes: all}, 900},
		"more than are there":     {"u:6:label", rollout.Status{Released: 9, Nodes: rollout.Counts{Total: 2000, Released: 2000}}, 1000},
		"all are ready but this":  {"u:6:label", rollout.Status{Released: 9, Nodes: rollout.Counts{Released: 9, Ready: 9}}, 1},
		"not yet released here":   {"u:6:label", rollout.Status{Released: 6, Nodes: rollout.Counts{Total: 1000, Released: 1}}, 1000},
		"a rollout that is done":  {"u:6:label", rollout.Status{State: rollout.Complete, Released: 9, Nodes: all}, 1000},
		"another one of this set": {"u:7:label", rollout.Status{Released: 9, Nodes: all}, 1000},
	} {
		var f follower
		f.crowd.nodes.Store(1000)
		f.waves.followed, f.waves.place = true, 7
		f.known.Sets = []Set{parseSet(t, test.set)}
		test.status.Sets = []rollout.Target{{Name: "s", UID: "u", Generation: 6}}
		f.waves.rollouts = map[string]rollout.Rollout{"r": {Status: test.status}}
		f.followWaves(t.Context())
		if got := f.crowd.reporting(); got != test.want {
			t.Errorf("%s: got %d nodes, want %d", name, got, test.want)
		}
	}
}

// Only an annotation that can be read says what was before.
func TestPrevious(t *testing.T) {
	for text, want := range map[string]bool{
		`{"generation":1,"images":["a"]}`: true, `{"generation":0,"images":[]}`: true, "": false, "x": false,
		`{"generation":-1,"images":[]}`: false, `{"generation":1,"images":["a\u0007"]}`: false,
		`{"generation":1,"images":["` + strings.Repeat("a", maxImageBytes+1) + `"]}`: false,
	} {
		if got := previous(map[string]string{rollout.PreviousAnnotation: text}); (got != nil) != want {
			t.Errorf("%q: got %v, want one: %v", text[:min(len(text), 40)], got, want)
		}
	}
}

// A set of the API names a store in an annotation. While a rollout holds the set back, the store does not count: it has
// the images of the other generation.
func TestStoreOfAHeldSet(t *testing.T) {
	u := unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "s", "generation": int64(6), "annotations": map[string]any{pinset.StoreAnnotation: "oci://a/b:1"},
		},
		"spec": map[string]any{"pinnedImages": []any{map[string]any{"name": pinned}}},
	}}
	s, err := object(&u)
	if err != nil {
		t.Fatal(err)
	}
	held := s
	held.Name, held.Held = "t", &Content{Generation: 5, Images: []string{pinned}}
	k := Known{Sets: []Set{s, held}}
	got := map[bool][]string{}
	for _, managed := range []bool{false, true} {
		sets, errs := k.Decode(managed)
		if len(errs) > 0 {
			t.Error(errs)
		}
		for _, set := range sets {
			got[managed] = append(got[managed], set.Store)
		}
	}
	want := map[bool][]string{false: {"oci://a/b:1", ""}, true: {"oci://a/b:1", "oci://a/b:1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stores, without and with the operator (-want +got):\n%s", diff)
	}
}

// `pinbox fleet apply` writes the store of a set, and takes away that of earlier images.
func TestApplyWritesTheStoreOfASet(t *testing.T) {
	var r rollout.Rollout
	r.Metadata.Name = "r"
	img, err := pinset.ParseImage(pinned)
	if err != nil {
		t.Fatal(err)
	}
	list := &unstructured.UnstructuredList{}
	for _, store := range []string{"oci://a/b:1", "oci://a/b:2", ""} {
		u, err := change(list, r, pinset.Set{Name: "s", Images: []pinset.Image{img}, Store: store})
		if err != nil || u == nil {
			t.Fatalf("%q: got %v, %v, want an object", store, u, err)
		}
		if got := u.GetAnnotations()[pinset.StoreAnnotation]; got != store {
			t.Errorf("got the store %q, want %q", got, store)
		}
		u.SetGeneration(1)
		list.Items = []unstructured.Unstructured{*u}
	}
}
