package pinset_test

import (
	"bytes"
	"errors"
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
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := pinset.DecodeDelta(strings.NewReader(text)); !errors.Is(err, pinset.ErrBadDelta) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %v with %q", err, pinset.ErrBadDelta, want)
			}
		})
	}
}
