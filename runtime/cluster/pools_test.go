package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/storage/pinset"
)

// As TestGetPoolsForNode in pkg/helpers of the Machine Config Operator, and what plain Kubernetes has beside it.
func TestPools(t *testing.T) {
	for name, test := range map[string]struct {
		labels  string // roles
		managed string // the pools on a managed node; "error" is one
		plain   string // and in plain Kubernetes; the same if it is empty
	}{
		"no role":                     {"", "worker", ""},
		"worker":                      {"worker", "worker", ""},
		"custom and worker":           {"infra worker", "infra worker", ""},
		"custom alone":                {"infra", "infra", ""},
		"two custom":                  {"gpu infra worker", "error", "gpu infra worker"},
		"master":                      {"master", "master control-plane", ""},
		"control plane":               {"control-plane", "master control-plane", ""},
		"both names":                  {"control-plane master", "master control-plane", ""},
		"single node":                 {"control-plane master worker", "master control-plane", ""},
		"master and custom":           {"infra master", "master control-plane", "infra master control-plane"},
		"master, custom and worker":   {"infra master worker", "master control-plane worker", "infra master control-plane worker"},
		"a label that is not a role":  {"/worker", "worker", ""},
		"a label that is a bare role": {"", "worker", ""},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{"worker": "", "node-role.kubernetes.io/": "", "kubernetes.io/os": "linux"}
			for role := range strings.FieldsSeq(test.labels) {
				if strings.HasPrefix(role, "/") {
					labels["other"+role] = ""
				} else {
					labels["node-role.kubernetes.io/"+role] = ""
				}
			}
			for managed, want := range map[bool]string{true: test.managed, false: test.plain} {
				if want == "" {
					want = test.managed
				}
				pools, err := cluster.Pools(cluster.Roles(labels), managed)
				got := strings.Join(pools, " ")
				if err != nil {
					got = "error"
				}
				if got != want {
					t.Errorf("managed %v: got %s, %v, want %s", managed, got, err, want)
				}
			}
		})
	}
}

// A set without a role label counts for every node, but not on OpenShift, where it is for no pool.
func TestChoose(t *testing.T) {
	set := func(name string, labels ...string) pinset.Set {
		s := pinset.Set{Name: name, Labels: map[string]string{"tier": "one"}}
		for _, role := range labels {
			s.Labels[pinset.RoleLabel] = role
		}
		return s
	}
	sets := []pinset.Set{set("workers", "worker"), set("infra", "infra"), set("empty", ""), set("every")}
	for name, test := range map[string]struct {
		pools, chosen, noPool string
		managed               bool
	}{
		"worker":            {"worker", "workers every", "", false},
		"worker, OpenShift": {"worker", "workers", "every", true},
		"custom":            {"infra worker", "workers infra every", "", false},
		"custom, OpenShift": {"infra worker", "workers infra", "every", true},
		"master":            {"master", "every", "", false},
		"unknown":           {"", "every", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, noPool := cluster.Choose(slices.Clone(sets), strings.Fields(test.pools), test.managed)
			var names []string
			for _, s := range chosen {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, " "); got != test.chosen || strings.Join(noPool, " ") != test.noPool {
				t.Errorf("got %s, and %v for no pool, want %s and %s", got, noPool, test.chosen, test.noPool)
			}
		})
	}
}
