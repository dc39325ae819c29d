package builder_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
)

// A release without a number is not built for nodes that attach media by themselves, which would refuse it. If
// something requires signatures, there is a warning: a signature alone does not tell an old store from a new one.
func TestReleaseWithoutNumber(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	defer registry.Close()
	keys := butane(t, "/etc/pinbox/keys.d/site.pub", "key")
	key, _ := fixtures.Key(t)
	signer, err := signature.ReadSigner(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		autoAttach, keys bool
		number           int64
		signer           signature.Signer
		want             error
		warns            bool
	}{
		"plain":                   {},
		"keys":                    {keys: true, warns: true},
		"signed":                  {signer: signer, warns: true},
		"keys and a number":       {keys: true, signer: signer, number: 1},
		"autoAttach":              {autoAttach: true, keys: true, want: pinset.ErrNoNumber},
		"autoAttach and a number": {autoAttach: true, keys: true, number: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sample.Set("worker", pins.Pause))
			o.Appliance.Metadata.Release, o.Appliance.Spec.Node.AutoAttach, o.Signer = c.number, c.autoAttach, c.signer
			if c.keys {
				o.Appliance.Spec.Ignition.Butane = []string{keys}
			}
			_, warnings, err := builder.Plan(t.Context(), o)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := strings.Contains(strings.Join(warnings, "\n"), "the release has no number"); got != c.warns {
				t.Errorf("got the warnings %q, want one of the number: %v", warnings, c.warns)
			}
			if c.want == nil {
				return
			}
			o.From = []string{o.Out}
			_, built := builder.Build(t.Context(), o)
			_, delta := builder.Delta(t.Context(), o)
			if _, err := os.Stat(o.Out); !errors.Is(built, c.want) || !errors.Is(delta, c.want) || !os.IsNotExist(err) {
				t.Errorf("build: got %v, delta: %v, folder: %v, want %v and no folder", built, delta, err, c.want)
			}
		})
	}
}
