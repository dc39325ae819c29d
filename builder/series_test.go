package builder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// series serves releases of images, and gives the pins of each.
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

// Each release of the sample series deletes and replaces what those before had.
func TestReleasesChangeWhatTheyStandOn(t *testing.T) {
	_, _, pins := series(t, 3)
	if pins[0][0] != pins[2][0] {
		t.Error("pause has changed")
	}
	o := options(t, sample.Set("worker", slices.Concat(pins...)...))
	build(t, o)
	store := oracle.Open(t, "", fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile)))
	if complaints := oracle.Check(t, store); len(complaints) > 0 {
		t.Errorf("Check complains:\n%v", complaints)
	}
	for r, release := range pins {
		for i, name := range []string{"app", "tool", "index"} {
			dir := oracle.Mount(t, store, release[i+1])
			said, err := os.ReadFile(filepath.Join(dir, "release"))
			if want := fmt.Sprintf("%s r%d\n", name, r+1); err != nil || string(said) != want {
				t.Errorf("/release says %q, %v; want %q", said, err, want)
			}
			for n := 1; n <= r+1; n++ {
				own := fmt.Sprintf("%s-r%d", name, n)
				for _, path := range []string{fmt.Sprintf("base/%d", n), "new/" + own, "data/tree/" + own} {
					_, err := os.Lstat(filepath.Join(dir, path))
					if there := err == nil; there != (n == r+1 && path[0] != 'b') {
						t.Errorf("%s of release %d: %s is there: %v", name, r+1, path, there)
					}
				}
			}
			if got := fixtures.Tree(t, dir)["."]; got != "mode 40751 owner 0:0 links 1" {
				t.Errorf("the root is %s", got) // the owner is that of the container
			}
		}
	}
}
