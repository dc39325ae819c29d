package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/pinbox/pinbox/runtime/rollout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// stored plays the part of an API that keeps sets and the rollout "r". Tests with a real one are in fixtures/kube.
type stored struct {
	sets   map[string]map[string]any
	status map[string]any // of the rollout
	// fail are the codes of requests: PUT a.
	fail map[string]int
	log  []string // of the requests that write
}

const setsPath = "/apis/machineconfiguration.openshift.io/v1/pinnedimagesets"

func (s *stored) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := strings.TrimPrefix(path.Base(r.URL.Path), path.Base(setsPath)) // "" of a list
	body, _ := io.ReadAll(r.Body)
	var object map[string]any
	_ = json.Unmarshal(body, &object) // a list has none
	if r.Method == http.MethodPost {
		name = object["metadata"].(map[string]any)["name"].(string)
	}
	request := r.Method + " " + name
	if r.Method != http.MethodGet {
		s.log = append(s.log, request)
	}
	if code := s.fail[request]; code != 0 {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": %q}`, code,
			map[int]string{404: "NotFound", 403: "Forbidden", 409: "Conflict"}[code])
		return
	}
	switch {
	case strings.Contains(r.URL.Path, "/rollouts/"):
		s.log = append(s.log, string(body))
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "pinbox.dev/v1alpha1", "kind": "Rollout", "metadata": map[string]any{"name": "r"}, "status": s.status,
		})
		return
	case r.Method == http.MethodGet:
		items := []any{}
		for _, name := range slices.Sorted(maps.Keys(s.sets)) {
			items = append(items, s.sets[name])
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "PinnedImageSetList",
			"metadata": map[string]any{"resourceVersion": "9"}, "items": items,
		})
		return
	case r.Method == http.MethodDelete:
		s.log = append(s.log, string(body))
		delete(s.sets, name)
	default:
		s.put(name, object)
	}
	_ = json.NewEncoder(w).Encode(object)
}

// put keeps a set, with the next generation.
func (s *stored) put(name string, object map[string]any) {
	generation := 1.0
	if before := s.sets[name]; before != nil {
		generation = before["metadata"].(map[string]any)["generation"].(float64) + 1
	}
	meta := object["metadata"].(map[string]any)
	meta["generation"], meta["uid"], meta["resourceVersion"] = generation, "u-"+name, fmt.Sprint(generation)
	s.sets[name] = object
}

// keep serves an API with these sets, which have no label.
func keep(t *testing.T, names ...string) (*stored, API) {
	t.Helper()
	s := &stored{sets: map[string]map[string]any{}, fail: map[string]int{}}
	for _, name := range names {
		s.put(name, map[string]any{
			"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "PinnedImageSet",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"pinnedImages": []any{map[string]any{"name": pinned}}},
		})
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := newClient(&rest.Config{Host: server.URL}, "pinbox")
	if err != nil {
		t.Fatal(err)
	}
	return s, API{client: c}
}

// is what a set has: its images, its role and rollout, its store, and what it had before.
func (s *stored) is(name string) string {
	object := s.sets[name]
	if object == nil {
		return "none"
	}
	var images []string
	for _, img := range object["spec"].(map[string]any)["pinnedImages"].([]any) {
		images = append(images, strings.TrimPrefix(img.(map[string]any)["name"].(string), "quay.io/x/")[:3])
	}
	meta := object["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text := fmt.Sprintf("%s role=%v rollout=%v", strings.Join(images, ","), labels[pinset.RoleLabel], labels[rollout.Label])
	if store, found := annotations[pinset.StoreAnnotation]; found {
		text += fmt.Sprintf(" store=%v", store)
	}
	if before, found := annotations[rollout.PreviousAnnotation]; found {
		text += fmt.Sprintf(" before=%v", strings.NewReplacer("quay.io/x/", "", strings.TrimPrefix(pinned, "quay.io/x/app"), "").
			Replace(before.(string)))
	}
	return text
}

// a set with one image by its name.
func wanted(t *testing.T, name, image string) pinset.Set {
	t.Helper()
	img, err := pinset.ParseImage(strings.Replace(pinned, "app", image, 1))
	if err != nil {
		t.Fatal(err)
	}
	return pinset.Set{Name: name, Images: []pinset.Image{img}, Labels: map[string]string{pinset.RoleLabel: "worker"}}
}

// `pinbox fleet apply` makes and changes sets. What a set had before is what all nodes had: not what a rollout that
// did not end has put on some.
func TestApply(t *testing.T) {
	s, api := keep(t, "old")
	step := func(image, changed, want string) {
		t.Helper()
		sets := []pinset.Set{wanted(t, "new", image), wanted(t, "old", image)}
		got, err := api.Apply(t.Context(), "r", rollout.Spec{}, sets)
		if err != nil || strings.Join(got, " ") != changed {
			t.Errorf("%s: got %v and %v changed, want %s", image, err, got, changed)
		}
		if diff := cmp.Diff(want, s.is("new")+"\n"+s.is("old")); diff != "" {
			t.Errorf("%s: sets (-want +got):\n%s", image, diff)
		}
	}
	none, first := ` before={"generation":0,"images":[]}`, ` before={"generation":1,"images":["app"]}`
	step("one", "new old", "one role=worker rollout=r"+none+"\none role=worker rollout=r"+first)
	step("one", "", "one role=worker rollout=r"+none+"\none role=worker rollout=r"+first)
	s.status = map[string]any{"state": "Progressing"}
	step("two", "new old", "two role=worker rollout=r"+none+"\ntwo role=worker rollout=r"+first)
	s.status = map[string]any{"state": "Complete", "sets": []any{
		map[string]any{"name": "new", "uid": "u-new", "generation": 2}, map[string]any{"name": "old", "uid": "u-old", "generation": 3},
	}}
	step("red", "new old", `red role=worker rollout=r before={"generation":2,"images":["two"]}`+"\n"+
		`red role=worker rollout=r before={"generation":3,"images":["two"]}`)
	// Another rollout has what this one had.
	s.status = nil
	s.sets["old"]["metadata"].(map[string]any)["labels"].(map[string]any)[rollout.Label] = "other"
	step("red", "old", `red role=worker rollout=r before={"generation":2,"images":["two"]}`+"\n"+
		`red role=worker rollout=r before={"generation":4,"images":["red"]}`)
	for name, set := range s.sets {
		if set["apiVersion"] != "machineconfiguration.openshift.io/v1" || set["kind"] != "PinnedImageSet" {
			t.Errorf("%s: got %v %v", name, set["apiVersion"], set["kind"])
		}
	}
	if got := s.log[1]; !strings.Contains(got, `"kind":"Rollout"`) || !strings.Contains(got, `"name":"r"`) {
		t.Errorf("got the rollout %s", got)
	}
}

// A set without labels, and a store that alone is another.
func TestApplyStoreAlone(t *testing.T) {
	s, api := keep(t)
	set := wanted(t, "s", "one")
	set.Labels = nil
	for _, store := range []string{"", "oci://a/b:1", "oci://a/b:1", "oci://a/b:2"} {
		set.Store = store
		if _, err := api.Apply(t.Context(), "r", rollout.Spec{}, []pinset.Set{set}); err != nil {
			t.Fatal(err)
		}
	}
	want := `one role=<nil> rollout=r store=oci://a/b:2 before={"generation":0,"images":[]}`
	if got := s.is("s"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	writes := slices.DeleteFunc(s.log, func(r string) bool { return !strings.HasSuffix(r, " s") })
	if diff := cmp.Diff([]string{"POST s", "PUT s", "PUT s"}, writes); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// What the API refuses ends `pinbox fleet apply`; the sets before that are named.
func TestApplyRefused(t *testing.T) {
	for request, test := range map[string]struct {
		code    int
		want    error
		changed string
	}{
		"":        {0, nil, "a b"},
		"PATCH r": {404, ErrNoRollout, ""},
		"GET ":    {403, ErrAPI, ""},
		"PUT a":   {409, ErrAPI, ""},
		"POST b":  {403, ErrAPI, "a"},
	} {
		s, api := keep(t, "a")
		s.fail[request] = test.code
		got, err := api.Apply(t.Context(), "r", rollout.Spec{}, []pinset.Set{wanted(t, "a", "one"), wanted(t, "b", "one")})
		if !errors.Is(err, test.want) || strings.Join(got, " ") != test.changed {
			t.Errorf("%s: got %v and %v changed, want %v and %s", request, err, got, test.want, test.changed)
		}
	}
	s, api := keep(t, "a")
	s.sets["a"]["metadata"].(map[string]any)["generation"] = 0.0 // no API has it
	if _, err := api.Apply(t.Context(), "r", rollout.Spec{}, []pinset.Set{wanted(t, "a", "one")}); !errors.Is(err, ErrAPI) {
		t.Errorf("a set that no API has: got %v, want %v", err, ErrAPI)
	}
}

// `pinbox fleet pause` changes nothing else of a rollout.
func TestPause(t *testing.T) {
	s, api := keep(t)
	for _, paused := range []bool{true, false} {
		if err := api.Pause(t.Context(), "r", paused); err != nil {
			t.Error(err)
		}
		if got, want := s.log[len(s.log)-1], fmt.Sprintf(`{"spec": {"paused": %v}}`, paused); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for code, want := range map[int]error{404: ErrNoRollout, 403: ErrAPI} {
		s.fail["PATCH r"] = code
		if err := api.Pause(t.Context(), "r", true); !errors.Is(err, want) {
			t.Errorf("%d: got %v, want %v", code, err, want)
		}
	}
}

// `pinbox fleet rollback` gives the sets of a rollout what they had, deletes new ones, and leaves others alone.
func TestRollback(t *testing.T) {
	s, api := keep(t, "alone", "old")
	if _, err := api.Apply(t.Context(), "r", rollout.Spec{}, []pinset.Set{wanted(t, "new", "one"), wanted(t, "old", "one")}); err != nil {
		t.Fatal(err)
	}
	s.log = nil
	names, err := api.Rollback(t.Context(), "r")
	if err != nil || strings.Join(names, " ") != "new old" {
		t.Errorf("got %v, %v, want new and old", names, err)
	}
	for name, want := range map[string]string{
		"alone": "app role=<nil> rollout=<nil>", "new": "none", "old": "app role=worker rollout=<nil>",
	} {
		if got := s.is(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got := strings.Join(s.log, " "); !strings.Contains(got, `"resourceVersion":"1"`) || strings.Contains(got, "alone") {
		t.Errorf("got the requests %s, want that the set was deleted in the version that was read, and no other changed", got)
	}
	if _, err := api.Rollback(t.Context(), "r"); !errors.Is(err, ErrNoRollout) {
		t.Errorf("again: got %v, want %v", err, ErrNoRollout)
	}
}

// A rollback that cannot restore all sets changes none; what the API refuses ends it.
func TestRollbackRefused(t *testing.T) {
	for request, code := range map[string]int{"PUT old": 409, "DELETE new": 403, "GET ": 403, "": 0} {
		s, api := keep(t, "old")
		if _, err := api.Apply(t.Context(), "r", rollout.Spec{}, []pinset.Set{wanted(t, "new", "one"), wanted(t, "old", "one")}); err != nil {
			t.Fatal(err)
		}
		want := ErrAPI
		if s.fail[request] = code; request == "" {
			delete(s.sets["old"]["metadata"].(map[string]any)["annotations"].(map[string]any), rollout.PreviousAnnotation)
			want = ErrNoPrevious
		}
		s.log = nil
		if names, err := api.Rollback(t.Context(), "r"); !errors.Is(err, want) || names != nil {
			t.Errorf("%s: got %v, %v, want %v", request, names, err, want)
		}
		if request == "" && len(s.log) > 0 {
			t.Errorf("got the requests %v, want none", s.log)
		}
	}
}
