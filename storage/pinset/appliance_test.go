package pinset_test

import (
	"cmp"
	"errors"
	"testing"

	"github.com/pinbox/pinbox/storage/pinset"
)

func TestFollows(t *testing.T) {
	edge := func(n int64) pinset.ReleaseID { return pinset.ReleaseID{Name: "edge", Number: n} }
	for name, c := range map[string]struct {
		next, earlier pinset.ReleaseID
		want          error
	}{
		"newer":                              {edge(8), edge(7), nil},
		"older":                              {edge(6), edge(7), pinset.ErrNotNewer},
		"the same number":                    {edge(7), edge(7), pinset.ErrNotNewer},
		"without a number after one":         {edge(0), edge(7), pinset.ErrNotNewer},
		"with a number after none":           {edge(1), edge(0), nil},
		"both without a number":              {edge(0), edge(0), nil},
		"another appliance":                  {pinset.ReleaseID{Name: "shop", Number: 8}, edge(7), pinset.ErrOtherAppliance},
		"without a name":                     {pinset.ReleaseID{Number: 8}, edge(7), pinset.ErrOtherAppliance},
		"on a node that has no appliance":    {edge(7), pinset.ReleaseID{}, nil},
		"without a name, on such a node":     {pinset.ReleaseID{}, pinset.ReleaseID{}, nil},
		"another name, and no number at all": {pinset.ReleaseID{Name: "shop"}, edge(0), pinset.ErrOtherAppliance},
	} {
		t.Run(name, func(t *testing.T) {
			unordered := c.next.IsUnordered(c.earlier)
			if want := c.want == nil && c.next.Name == c.earlier.Name && c.next.Number == c.earlier.Number; unordered != want {
				t.Errorf("got unordered: %v, want %v", unordered, want)
			}
			if got := cmp.Or(c.next.IsOf(c.earlier), c.next.Follows(c.earlier)); !errors.Is(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
