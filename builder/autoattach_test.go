package builder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
)

// A build warns if nodes attach any medium that is plugged in and have no keys to verify it.
func TestAutoAttachWithoutKeys(t *testing.T) {
	_, pins := fixtures.Samples(t)
	keys := filepath.Join(t.TempDir(), "keys.bu")
	if err := os.WriteFile(keys, []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n"+
		"  - path: /etc/pinbox/keys.d/site.asc\n    contents:\n      inline: key\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		butane []string
		warned bool
	}{
		"no keys": {nil, true},
		"keys":    {[]string{keys}, false},
	} {
		o := options(t, pins.Sets())
		o.Appliance.Spec.Node.AutoAttach, o.Appliance.Spec.Ignition.Butane = true, c.butane
		_, warnings, err := builder.Plan(t.Context(), o)
		if said := strings.Contains(strings.Join(warnings, "\n"), "whoever can plug in a medium"); err != nil ||
			said != c.warned {
			t.Errorf("%s: %v, %v", name, warnings, err)
		}
	}
}
