package node

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
)

// A process that has put a store together has its own priority again.
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
	restore := idle()
	if got := nice(); got != lowestPriority {
		t.Errorf("got the niceness %d, want %d", got, lowestPriority)
	}
	restore()
	if got := nice(); got != before {
		t.Errorf("got the niceness %d afterwards, want %d", got, before)
	}
}
