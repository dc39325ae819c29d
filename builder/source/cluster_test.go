package source_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

// OpenShift updates the operating system of nodes from the image in the store, unless its source says no.
func TestForCluster(t *testing.T) {
	content := source.Content{
		Releases: []source.RequestedRelease{
			{}, {Group: source.Group{Pools: []string{"infra"}}, Release: source.Release{MachineOS: new(false)}},
		},
		Sets: []pinset.Set{
			{Name: "all", Origin: "a.yaml:1", Labels: map[string]string{"a": "b"}},
			{Name: "infra", Labels: map[string]string{pinset.RoleLabel: "infra"}},
		},
	}
	content.ForCluster([]string{"worker", "master"})
	want := []pinset.Set{
		{Name: "all-worker", Origin: "a.yaml:1", Labels: map[string]string{"a": "b", pinset.RoleLabel: "worker"}},
		{Name: "all-master", Origin: "a.yaml:1", Labels: map[string]string{"a": "b", pinset.RoleLabel: "master"}},
		{Name: "infra", Labels: map[string]string{pinset.RoleLabel: "infra"}},
	}
	if diff := cmp.Diff(want, content.Sets); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	if len(content.Warnings) != 1 || !strings.Contains(content.Warnings[0], `a.yaml:1: set "all" has no label`) {
		t.Errorf("got the warnings %v, want one for the set all", content.Warnings)
	}
	first, second := content.Releases[0], content.Releases[1]
	if !slices.Equal(first.Pools, []string{"worker", "master"}) || first.MachineOS == nil || !*first.MachineOS {
		t.Errorf("got %v and the operating system %v, want both pools with it", first.Pools, first.MachineOS)
	}
	if !slices.Equal(second.Pools, []string{"infra"}) || *second.MachineOS {
		t.Errorf("got %v and the operating system %v, want what its source says", second.Pools, *second.MachineOS)
	}
}
