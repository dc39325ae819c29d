package pinset_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

func TestDelta(t *testing.T) {
	d := pinset.Delta{
		Version: pinset.DeltaVersion,
		Bases: []pinset.Base{
			{Store: digest.FromString("store"), Lock: digest.FromString("lock")}, {Lock: digest.FromString("other")},
		},
		Needs: []pinset.Need{{Layer: digest.FromString("layer").Encoded(), Link: strings.Repeat("L", 26)}},
		Thin:  &pinset.Thin{Version: pinset.ThinVersion, StoreSize: 1, Reads: []string{digest.FromString("read").Encoded()}},
	}
	want := []string{digest.FromString("layer").Encoded(), digest.FromString("read").Encoded()}
	slices.Sort(want)
	if got := d.Requires(); !slices.Equal(got, want) {
		t.Errorf("requires %v, want %v", got, want)
	}
	var b bytes.Buffer
	if err := d.Encode(&b); err != nil {
		t.Fatal(err)
	}
	got, err := pinset.DecodeDelta(&b)
	if diff := cmp.Diff(d, got); err != nil || diff != "" {
		t.Errorf("got %v, -want +got:\n%s", err, diff)
	}
}

func TestBadDelta(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":2}`:            "version 2; this pinbox reads version 1",
		`{"version":1,"needed":1}`: "needed",
		`nothing`:                  "invalid",

		`{"version":1,"thin":{"version":2,"storeSize":1,"reads":[]}}`:    "a newer pinbox made it",
		`{"version":1,"thin":{"storeSize":1,"reads":[]}}`:                "thin: no version",
		`{"version":1,"thin":{"version":1,"reads":[]}}`:                  "thin: storeSize 0: want 1 to",
		`{"version":1,"thin":{"version":1,"storeSize":1,"more":1}}`:      "more",
		`{"version":1,"thin":{"version":1,"storeSize":1,"reads":["x"]}}`: `thin: reads[0]: layer "x"`,
		`{"version":1,"thin":{"version":1,"storeSize":1,"reads":["` + strings.Repeat("b", 64) + `","` +
			strings.Repeat("a", 64) + `"]}}`: "thin: reads[1]",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := pinset.DecodeDelta(strings.NewReader(text))
			if !errors.Is(err, pinset.ErrBadDelta) && !errors.Is(err, pinset.ErrNewer) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %v with %q", err, pinset.ErrBadDelta, want)
			}
		})
	}
}
