package runtime_test

import (
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime"
)

// What the Machine Config Operator reports is compared with the API and with what is on the node.
func TestOperatorLines(t *testing.T) {
	for name, test := range map[string]struct {
		operator runtime.OperatorSet
		pinned   int
		want     string
	}{
		"not there yet":       {runtime.OperatorSet{}, 0, "does not have the set yet"},
		"an older generation": {runtime.OperatorSet{DesiredGeneration: 2, CurrentGeneration: 2}, 0, "it has generation 2, and the API 3"},
		"failed": {runtime.OperatorSet{DesiredGeneration: 3, CurrentGeneration: 2, LastFailedGeneration: 3,
			LastFailedGenerationError: "no space"}, 0, "generation 3 failed: no space"},
		"at work":                  {runtime.OperatorSet{DesiredGeneration: 3, CurrentGeneration: 2}, 1, ""},
		"complete there, not here": {runtime.OperatorSet{DesiredGeneration: 3, CurrentGeneration: 3}, 1, "1 of 2 images are pinned here"},
		"complete here, not there": {runtime.OperatorSet{DesiredGeneration: 3, CurrentGeneration: 2}, 2, "has yet to report generation 3"},
		"complete":                 {runtime.OperatorSet{DesiredGeneration: 3, CurrentGeneration: 3, LastFailedGeneration: 2}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.operator.Name, test.operator.Generation = "infra", 3
			s := runtime.Status{
				Sets:    []runtime.SetStatus{{Name: "infra", Images: 2, Pinned: test.pinned}},
				Cluster: &runtime.ClusterStatus{Operator: []runtime.OperatorSet{test.operator}},
			}
			got := strings.Join(s.OperatorLines(), "\n")
			if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
