package spec_test

import (
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/layout"
)

// What a schema cannot express: which cluster has what, and who pins there.
func TestOpenShift(t *testing.T) {
	for name, test := range map[string]struct {
		cluster spec.OpenShift
		pins    layout.Pins
		api     string
		want    string // in the error; "" for a good cluster
	}{
		"first":           {spec.OpenShift{Version: "4.14"}, layout.PinsNode, "v1alpha1", ""},
		"without preview": {spec.OpenShift{Version: "4.18"}, layout.PinsNode, "v1alpha1", ""},
		"with preview":    {spec.OpenShift{Version: "4.18", API: "v1alpha1"}, layout.PinsOperator, "v1alpha1", ""},
		"by default":      {spec.OpenShift{Version: "4.19"}, layout.PinsOperator, "v1", ""},
		"next major":      {spec.OpenShift{Version: "5.0", API: "v1", Podman: true}, layout.PinsOperator, "v1", ""},
		"too old":         {spec.OpenShift{Version: "4.13"}, "", "", "4.14, the oldest"},
		"no version":      {spec.OpenShift{}, "", "", "spec.openshift.version"},
		"no such version": {spec.OpenShift{Version: "4.99"}, "", "", "OpenShift 4.99 does not exist"},
		"API to come":     {spec.OpenShift{Version: "4.18", API: "v1"}, "", "", "of OpenShift 4.19 and newer"},
		"API that went":   {spec.OpenShift{Version: "4.19", API: "v1alpha1"}, "", "", "of OpenShift 4.16 to 4.18"},
		"other file":      {spec.OpenShift{Version: "4.14", Podman: true}, "", "", "4.16 and newer"},
		"pool twice":      {spec.OpenShift{Version: "4.20", Pools: []string{"a", "a"}}, "", "", "one more"},
		"bad pool":        {spec.OpenShift{Version: "4.20", Pools: []string{"A b"}}, "", "", `"A b"`},
	} {
		t.Run(name, func(t *testing.T) {
			a := spec.New(source.Entry{Source: &source.Images{"quay.io/site/app:1"}})
			a.Spec.OpenShift = &test.cluster
			err := a.Validate()
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			if err != nil || test.cluster.Pins() != test.pins || test.cluster.SetVersion() != test.api {
				t.Errorf("got %v, %s and %s; want %s and %s", err, test.cluster.Pins(), test.cluster.SetVersion(), test.pins,
					test.api)
			}
		})
	}
}
