package builder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
)

// series serves releases of images, and returns the pins of each.
func series(t *testing.T, releases int) (*sample.Registry, *fixtures.Access, [][]string) {
	t.Helper()
	registry, access := appliance.Registry(t)
	pins, err := registry.PushSeries(t.Context(), []byte("program"), releases)
	if err != nil {
		t.Fatal(err)
	}
	access.Take()
	return registry, access, pins
}

// Each release of the sample series deletes and replaces files of the releases before it.
func TestReleasesChangeEarlierFiles(t *testing.T) {
	t.Parallel()
	_, _, pins := series(t, 3)
	if pins[0][0] != pins[2][0] {
		t.Errorf("got the pause image %s in the last release, want %s", pins[2][0], pins[0][0])
	}
	o := options(t, sample.Set("worker", slices.Concat(pins...)...))
	build(t, o)
	store := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile)))
	if complaints := oracle.Check(t, store); len(complaints) > 0 {
		t.Errorf("got from Check, want nothing:\n%v", complaints)
	}
	for r, release := range pins {
		for i, name := range []string{"app", "tool", "index"} {
			dir := oracle.Mount(t, store, release[i+1])
			got, err := os.ReadFile(filepath.Join(dir, "release"))
			if want := fmt.Sprintf("%s r%d\n", name, r+1); err != nil || string(got) != want {
				t.Errorf("got /release %q, %v; want %q", got, err, want)
			}
			for n := 1; n <= r+1; n++ {
				own := fmt.Sprintf("%s-r%d", name, n)
				for _, path := range []string{fmt.Sprintf("base/%d", n), "new/" + own, "data/tree/" + own} {
					_, err := os.Lstat(filepath.Join(dir, path))
					exists, want := err == nil, n == r+1 && path[0] != 'b'
					if exists != want {
						t.Errorf("%s of release %d: got %v for the existence of %s, want %v", name, r+1, exists, path, want)
					}
				}
			}
			if got := fixtures.Tree(t, dir)["."]; got != "mode 40751 owner 0:0 links 1" { // the owner is that of the container
				t.Errorf("got the root directory %s, want mode 40751 owner 0:0 links 1", got)
			}
		}
	}
}
