package node

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// A process that has put a store together, or has verified its stores, has its own priority again.
func TestPriorityIsRestored(t *testing.T) {
	fixtures.NeedRoot(t) // others cannot raise a priority again
	nice := func() int {
		t.Helper()
		reversed, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Fatal(err)
		}
		return 20 - reversed
	}
	before := nice()
	dir := t.TempDir()
	o := Open(Settings{Sets: filepath.Join(dir, "sets.d"), CRIODir: dir, Status: filepath.Join(dir, "status.json")})
	if _, err := o.Verify(t.Context(), stores.VerifyOptions{}); nice() != before {
		t.Errorf("got the niceness %d after %v, want %d", nice(), err, before)
	}
	restore := idle()
	if got := nice(); got != lowestPriority {
		t.Errorf("got the niceness %d, want %d", got, lowestPriority)
	}
	restore()
	if got := nice(); got != before {
		t.Errorf("got the niceness %d afterwards, want %d", got, before)
	}
}
