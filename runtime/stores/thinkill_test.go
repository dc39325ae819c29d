package stores_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
)

// An attach of a thin delta is killed at random moments. Nothing is left that is not in the state, and the next one
// completes.
func TestKilledWhileAThinDeltaIsAttached(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	delta := s.thin[1]
	s.mustRun("firstboot")
	s.mustRun("attach", delta) // now there is a state, also if each kill is early
	s.mustRun("rollback")
	s.mustRun("detach")
	k, kills := fixtures.NewKiller(t), fixtures.Soak(t, 8)
	for i := 0; k.Kills() < kills && !t.Failed(); i++ {
		killed := k.Kill("attach", s.Pinbox("attach", delta))
		if i%5 == 0 {
			s.checkConsistency([]string{"attach", fmt.Sprint("killed ", killed)})
		}
		if strings.Contains(s.Do("status").Out, "SLOT") { // it is to be put together again
			s.Do("rollback")
			s.mustRun("detach")
		}
	}
	t.Logf("killed: %v, ended: %d", k.Killed, k.Ended)
	s.mustRun("attach", delta)
	s.wantRelease(1)
	s.wantStore(delta)
	s.checkConsistency([]string{"attach"})
}

// A refused thin delta changes nothing, and the error says what to do.
func TestRefusedThinDeltas(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	delta, later := s.thin[1], s.thin[2]
	s.mustRun("firstboot")
	before := s.pinboxFiles()
	changed := copyStore(t, delta)
	content, err := os.ReadFile(thinFile(changed))
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(thinFile(changed), content, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		code int
		text string
		args []string
	}{
		"a byte changed":                  {4, "it has SHA-256", []string{changed}},
		"in place":                        {3, "a thin delta cannot be used in place", []string{delta, "--in-place"}},
		"layers to read from are missing": {3, "layers are missing", []string{later}},
		"too large":                       {5, "are kept in reserve", []string{delta, "--reserve", "900Ti"}},
		"a file without a sum":            {3, "the SHA-256 of the store is unknown", []string{s.withoutSums(delta)}},
	} {
		t.Run(name, func(t *testing.T) {
			result := s.Do("attach", c.args...)
			if result.Code != c.code || !strings.Contains(result.Err, c.text) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", result.Code, c.code, c.text, result.Out, result.Err)
			}
		})
	}
	if after := s.pinboxFiles(); !slices.Equal(after, before) {
		t.Errorf("got the files %v, want %v", after, before)
	}
	s.wantPinned(0)
}

// withoutSums is a copy of a thin delta alone.
func (s *thinSystem) withoutSums(delta string) (folder string) {
	s.t.Helper()
	folder = s.t.TempDir()
	fixtures.Run(s.t, "cp", thinFile(delta), folder+"/"+artifact.ThinStoreFile)
	return folder
}
