package builder_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// An object without the label of a pool belongs to no pool of OpenShift: each pool gets a copy. The cluster takes all
// manifests.
func TestManifestsOfACluster(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	for version, cluster := range map[string]fixtures.Cluster{
		"4.18": fixtures.OpenShift418, "4.20": fixtures.OpenShift,
	} {
		t.Run(version, func(t *testing.T) {
			o := options(t, append(append(sample.Set("infra", pins.Docker), "---\n"...), sample.SetNamed("all", pins.Pause)...))
			o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &source.Images{pins.Mixed}})
			o.Appliance.Spec.OpenShift = &spec.OpenShift{Version: version, Podman: true}
			result := build(t, o)
			if !slices.ContainsFunc(result.Warnings, func(w string) bool {
				return strings.Contains(w, `set "all" has no label machineconfiguration.openshift.io/role`) &&
					strings.Contains(w, "all-worker, all-master instead")
			}) {
				t.Errorf("got the warnings %v, want one for the set without a pool", result.Warnings)
			}
			var names []string
			for _, set := range appliance.Lock(t, o.Out).Sets {
				names = append(names, set.Name)
			}
			name := o.Appliance.Metadata.Name
			want := []string{"all-master", "all-worker", name + "-images-master", name + "-images-worker", "infra-sample"}
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("got the sets %v, want %v", names, want)
			}
			manifests := filepath.Join(o.Out, artifact.ManifestsDir)
			var objects [][]byte
			for _, pattern := range []string{"*.yaml", "podman/*.yaml"} {
				files, err := filepath.Glob(filepath.Join(manifests, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					content, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					objects = append(objects, content)
				}
			}
			if refused := cluster.Check(t, bytes.Join(objects, []byte("---\n"))); refused != "" || len(objects) != 10 {
				t.Errorf("got %d manifests, and %s; want 10 that the cluster takes", len(objects), refused)
			}
			for _, command := range result.Apply {
				for i, word := range strings.Fields(command) {
					if i > 0 && strings.Fields(command)[i-1] == "-f" {
						if _, err := os.Stat(word); err != nil {
							t.Errorf("%s: %v", command, err)
						}
					}
				}
			}
			applies := strings.Contains(strings.Join(result.Apply, "\n"), "infra-sample.yaml")
			if applies != (version == "4.20") || len(result.Apply) == 0 {
				t.Errorf("got the commands %q, want the sets only where the operator pins", result.Apply)
			}
			if _, err := verify.Release(t.Context(), o.Out, verify.Options{}); err != nil {
				t.Errorf("verify: %v", err)
			}
		})
	}
}
