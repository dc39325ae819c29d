package builder_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
)

// A delta has the program only if a base has another one, or none: it is as large as many small images. The lock
// names it in any case.
func TestProgramOfADelta(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	r := registry(t)
	pins := []string{
		pushed(t, r, "test/app", tarLayer(t, sample.File("file", "1"))), pushed(t, r, "test/app", tarLayer(t, sample.File("file", "2"))),
	}
	programs := map[string]string{}
	release := func(version, pin string, from ...string) string {
		t.Helper()
		o := options(t, sample.Set("worker", pin))
		if programs[version] == "" {
			programs[version] = fixtures.ProgramOfVersion(t, o.NodeBinary, version)
		}
		o.NodeBinary, o.From = programs[version], from
		if len(from) == 0 {
			build(t, o)
		} else if _, err := builder.Delta(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return o.Out
	}
	first, other := release("v1.20.3", pins[0]), release("v1.20.4", pins[0])
	for name, c := range map[string]struct {
		version string
		from    []string
		carried bool
	}{
		"the same":            {"v1.20.3", []string{first}, false},
		"a newer one":         {"v1.20.4", []string{first}, true},
		"an older one":        {"v1.20.3", []string{other}, true},
		"of one of two bases": {"v1.20.4", []string{first, other}, true},
		"of a delta":          {"v1.20.4", []string{release("v1.20.4", pins[0], first)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			out := release(c.version, pins[1], c.from...)
			content, err := os.ReadFile(programs[c.version])
			if err != nil {
				t.Fatal(err)
			}
			want := digest.FromBytes(content)
			if got := appliance.Lock(t, out).Program; got == nil || got.Digest != want || !strings.HasPrefix(got.Version, c.version) {
				t.Errorf("got the program %v in the lock, want %s %s", got, c.version, want)
			}
			root := fixtures.Mount(t, filepath.Join(out, layout.DeltaStoreFile))
			got, err := os.ReadFile(filepath.Join(root, layout.OwnProgram))
			switch {
			case !c.carried && !errors.Is(err, fs.ErrNotExist):
				t.Errorf("got %v for the program in the store, want none", err)
			case c.carried && (err != nil || digest.FromBytes(got) != want):
				t.Errorf("got %v, %s for the program in the store, want %s", err, digest.FromBytes(got), want)
			}
		})
	}
}
