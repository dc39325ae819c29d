package artifact_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
)

// Several builds into one folder: one at a time has the stage, whatever the
// others do at that moment.
func TestStageHasOneHolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	var holders atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 500 {
				s, err := artifact.OpenStage(out)
				if errors.Is(err, artifact.ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				err = os.WriteFile(s.Path("f"), nil, 0o644)
				holders.Add(-1)
				if err := errors.Join(err, s.Discard()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
