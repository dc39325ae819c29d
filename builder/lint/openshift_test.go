package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
)

// docs/openshift.md has the rows that lint prints, word for word.
func TestRequestsOfTheDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(fixtures.Root(t), "docs/openshift.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	_, section, _ := strings.Cut(string(text), "\n## What still asks a registry\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, r := range lint.AllRequests {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", r.Name, r.During, r.Versions(), r.What, r.Cure,
			r.Source))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-code +docs):\n%s", diff)
	}
}

// Each version has at most one row of a name.
func TestRequestsOfAVersion(t *testing.T) {
	for version, want := range map[string]string{
		"4.14": "first-boot first-boot-os bootstrap os-image extensions node-ip imagestreams catalogs",
		"4.18": "first-boot first-boot-os bootstrap os-image extensions node-ip imagestreams catalogs",
		"4.20": "first-boot first-boot-os bootstrap os-image extensions node-ip imagestreams catalogs",
		"4.23": "first-boot bootstrap os-image os-streams extensions node-ip imagestreams catalogs",
		"5.1":  "first-boot bootstrap os-image os-streams extensions node-ip imagestreams catalogs",
	} {
		v, err := spec.ParseMinor(version)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range lint.Requests(v) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

// OpenShift ignores a set without the label of a pool.
func TestSetsWithoutAPool(t *testing.T) {
	const set = "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {name: a%s}\n" +
		"spec: {pinnedImages: [{name: quay.io/site/app@" + index + "}]}\n"
	for labels, want := range map[string]int{
		"": 1, ", labels: {machineconfiguration.openshift.io/role: worker}": 0, ", labels: {role: worker}": 1,
	} {
		objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(fmt.Sprintf(set, labels)))
		if err != nil {
			t.Fatal(err)
		}
		found := lint.Pools(objects)
		if len(found) != want || want > 0 && (found[0].Rule != "set-pool" || found[0].Line != 3) {
			t.Errorf("%q: got %v, want %d of the rule set-pool", labels, found, want)
		}
	}
}
