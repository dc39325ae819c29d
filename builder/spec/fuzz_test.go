package spec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/builder/spec"
)

// An appliance file is refused, or it is an appliance with sources.
func FuzzAppliance(f *testing.F) {
	f.Add([]byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\nspec:\n  sources: [{images: ['quay.io/a:1']}]\n"))
	f.Add([]byte("spec: &a [*a]\n"))
	path := filepath.Join(f.TempDir(), "appliance.yaml") // one for all inputs, which are tried one after the other
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := spec.Read(path); err == nil && len(a.Spec.Sources) == 0 {
			t.Error("got an appliance without sources, want an error")
		}
	})
}
