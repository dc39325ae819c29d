package spec_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
)

// offered is the beginning of a line of an appliance file that sets a field once its # is removed.
var offered = regexp.MustCompile(`(?m)^( *)#(\S|  )`)

// The file that `pinbox init` writes is read by pinbox, and fits the schema: as it is, and with all fields that it
// offers.
func TestStartGolden(t *testing.T) {
	for name, start := range map[string]spec.Start{
		"start.yaml": {Name: "factory-12", Platform: "linux/amd64", Sources: []source.Entry{
			{Source: &source.PinnedImageSets{"sets/", "/srv/worker.yaml"}},
			{Source: &source.OCI{{Path: "layout", Name: "quay.io/site/app:1.2"}}},
		}},
		"start-iso.yaml": {Name: "on: board #7 \u00e9", Platform: "linux/arm64", Base: "base/rhcos: live.iso", Sources: []source.Entry{
			{Source: &source.Release{Image: "quay.io/openshift-release-dev/ocp-release:4.18.3-aarch64"}, Set: "ocp"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := start.Render(filepath.Join("sub", "appliance.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			fixtures.Golden(t, name, content)
			all := offered.ReplaceAll(content, []byte("$1$2"))
			if string(all) == string(content) {
				t.Error("got no fields that are offered, want some")
			}
			for _, content := range [][]byte{content, all} {
				path := filepath.Join(t.TempDir(), "appliance.yaml")
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := spec.Read(path)
				var doc any
				if err != nil || yaml.Unmarshal(content, &doc) != nil {
					t.Fatalf("got %v, want an appliance:\n%s", err, content)
				}
				if err := compiled(t).Validate(doc); err != nil {
					t.Errorf("got %v from the schema, want no error:\n%s", err, content)
				}
				if got.Metadata.Name != start.Name || len(got.Spec.Sources) != len(start.Sources) {
					t.Errorf("got %q with %d sources, want %q with %d", got.Metadata.Name, len(got.Spec.Sources), start.Name,
						len(start.Sources))
				}
			}
		})
	}
}
