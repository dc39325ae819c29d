package watch_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/watch"
)

const pin = "quay.io/x/a@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"

// A broken file says so, and takes no other set with it.
func TestBrokenFileIsAnErrorNotAnEmptySet(t *testing.T) {
	sets, err := watch.Dir(fstest.MapFS{
		"worker.yaml": {Data: sample.Set("worker", pin)},
		"broken.yaml": {Data: []byte("kind: PinnedImageSet\n")},
		"notes.txt":   {Data: []byte("not read")},
	})
	if len(sets) != 1 || sets[0].Name != "worker-sample" || err == nil || !strings.Contains(err.Error(), "broken.yaml:1") {
		t.Errorf("%v, %v", sets, err)
	}
}

func TestSetsOfPools(t *testing.T) {
	every := []byte(strings.Replace(string(sample.Set("every", pin)), "machineconfiguration.openshift.io/role: every", "tier: one", 1))
	sets, err := watch.Dir(fstest.MapFS{"a.yaml": {Data: sample.Set("worker", pin)}, "b.yaml": {Data: sample.Set("infra", pin)}, "c.yaml": {Data: every}})
	if err != nil {
		t.Fatal(err)
	}
	for pools, want := range map[string]string{"": "worker-sample infra-sample every-sample", "worker": "worker-sample every-sample", "master": "every-sample", "worker infra": "worker-sample infra-sample every-sample"} {
		var names []string
		for _, s := range watch.ForPools(sets, strings.Fields(pools)) {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("pools %q: %s, want %s", pools, got, want)
		}
	}
}
