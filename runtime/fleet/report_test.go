package fleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/pinset"
)

func TestReport(t *testing.T) {
	long := strings.Repeat("x", 2000)
	s := runtime.Status{
		Runtime: "cri-o 1.34.0", Owner: runtime.Pinbox,
		Sets: []runtime.SetStatus{
			{Name: "api", Images: 3, Pinned: 1, Missing: 2, CurrentGeneration: "2", DesiredGeneration: "3",
				LastFailedGeneration: "3", LastFailedGenerationError: long},
			{Name: "restored", Images: 1, Pinned: 1, CurrentGeneration: "7", DesiredGeneration: "5"},
			{Name: "file", Images: 1, DesiredGeneration: "sha256:12"},
		},
		Images: []runtime.ImageStatus{
			{Name: "a", State: runtime.Pinned},
			{Name: "b", State: runtime.Missing, Bytes: 10, ErrorClass: runtime.Auth, Error: "denied"},
			{Name: "c", State: runtime.Missing, Bytes: 5, ErrorClass: runtime.Auth, Error: "denied, too"},
			{Name: "d", State: runtime.Pulling, Bytes: 1},
			{Name: "e", State: runtime.Present, ErrorClass: runtime.Other, Error: long},
		},
		Stores: []runtime.StoreStatus{{Slot: "1", Digest: "sha256:1", ReleaseID: pinset.ReleaseID{Name: "edge", Number: 7},
			State: runtime.StoreMounted, Current: true}},
		Errors:  append(make([]string, 12), "more"),
		Cluster: &runtime.ClusterStatus{Kept: []string{"restored"}},
		Program: &runtime.ProgramStatus{Running: pinset.Program{Digest: "sha256:2"}},
		Wanted:  []wanted.Image{{Name: "quay.io/x/a:1", Times: 3, Pods: []string{"shop/web"}}},
	}
	want := Report{
		Sets: []SetReport{
			{Name: "api", Images: 3, Pinned: 1, Missing: 2, CurrentGeneration: 2, DesiredGeneration: 3, LastFailedGeneration: 3,
				LastFailedGenerationError: long[:1024]},
			{Name: "restored", Images: 1, Pinned: 1, DesiredGeneration: 5}, {Name: "file", Images: 1},
		},
		Images:    ImageCounts{Total: 5, Pinned: 1, Present: 1, Pulling: 1, Missing: 2},
		Failures:  []Failure{{"auth", 2, "b", "denied"}, {"other", 1, "e", long[:1024]}},
		BytesToGo: 16, Errors: make([]string, 10), Kept: []string{"restored"},
		Stores: []StoreReport{{Slot: "1", Digest: "sha256:1", Name: "edge", Release: 7, State: "mounted", Current: true}},
		Owner:  "pinbox", Runtime: "cri-o 1.34.0", Pinbox: "sha256:2",
		Wanted: []wanted.Image{{Name: "quay.io/x/a:1", Times: 3, Pods: []string{"shop/web"}}},
	}
	if diff := cmp.Diff(want, NewReport(s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
