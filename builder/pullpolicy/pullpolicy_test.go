package pullpolicy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/builder/pullpolicy"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

func lockOf(appliance string, tags ...string) pinset.Lock {
	l := pinset.Lock{ReleaseID: pinset.ReleaseID{Name: appliance}}
	for _, tag := range tags {
		l.Images = append(l.Images, pinset.LockedImage{Tags: []string{tag}})
	}
	return l
}

func TestNamesGolden(t *testing.T) {
	lock := lockOf("factory-12", "quay.io/site/app:latest", "docker.io/library/nginx:1.27", "docker.io/site/app:1",
		"registry.local:5000/app:2", "quay.io/site/app:latest")
	lock.Images = append(lock.Images, pinset.LockedImage{Pin: "quay.io/site/pinned@sha256:" + strings.Repeat("0", 64)})
	fixtures.Golden(t, "always-names.yaml", pullpolicy.Manifests(lock)["names.yaml"])
}

// configMap is what the tests read of one.
type configMap struct {
	Metadata struct{ Name, Namespace string }
	Data     struct{ Names string }
}

func configMaps(t *testing.T, lock pinset.Lock) (all []configMap) {
	t.Helper()
	for document := range strings.SplitSeq(string(pullpolicy.Manifests(lock)["names.yaml"]), "\n---\n") {
		var m configMap
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func TestNamesOfConfigMaps(t *testing.T) {
	for _, test := range []struct{ appliance, want string }{
		{"", "pinbox-names-1"},
		{"factory-12", "pinbox-names-factory-12-1"},
		{"Factory 12", "pinbox-names-ae7b62b5308e32fd-1"}, // no name of an object
		{strings.Repeat("a", 253), "pinbox-names-32859a3ab65ac529-1"},
	} {
		all := configMaps(t, lockOf(test.appliance))
		if len(all) != 1 || all[0].Metadata.Name != test.want || all[0].Data.Names != "" {
			t.Errorf("%q: got %+v, want one ConfigMap %s without names", test.appliance, all, test.want)
		}
	}
}

// A ConfigMap holds no more than `kubectl apply` can keep in an annotation.
func TestManyNamesAreSplit(t *testing.T) {
	var want []string
	for n := range 1201 {
		tail := fmt.Sprintf("/%04d", n)
		want = append(want, "q.io/"+strings.Repeat("a", 250-len(tail))+tail+":"+strings.Repeat("t", 128))
	}
	all := configMaps(t, lockOf("", want...))
	var got, names []string
	for _, m := range all {
		if len(m.Data.Names) > 200_000 {
			t.Errorf("%s: got %d bytes, want at most 200,000", m.Metadata.Name, len(m.Data.Names))
		}
		got = append(got, strings.Fields(m.Data.Names)...)
		names = append(names, m.Metadata.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(names, []string{"pinbox-names-1", "pinbox-names-2", "pinbox-names-3"}) {
		t.Errorf("got %v, and the names (-want +got):\n%s", names, diff)
	}
}
