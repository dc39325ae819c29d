package node

import (
	"path/filepath"
	"runtime/debug"
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
	o := Open(Settings{Set: []string{"setsDir=" + filepath.Join(dir, "sets.d"), "crioDir=" + dir, "status=" + filepath.Join(dir, "status.json")}})
	if _, err := o.Verify(t.Context(), stores.VerifyOptions{}); nice() != before {
		t.Errorf("got the niceness %d after %v, want %d", nice(), err, before)
	}
	memory := debug.SetMemoryLimit(-1)
	c := composing{file: o.composingFile()}
	defer c.end()
	c.Done(stores.Reading, stores.Store{}, 1, 2)
	if got := nice(); got != before {
		t.Errorf("got the niceness %d for a copy, want %d", got, before)
	}
	c.Done(stores.Composing, stores.Store{}, 1, 2)
	if got, limit := nice(), debug.SetMemoryLimit(-1); got != lowestPriority || limit != composingMemory {
		t.Errorf("got the niceness %d and the memory %d, want %d and %d", got, limit, lowestPriority, composingMemory)
	}
	c.Done(stores.Composing, stores.Store{}, 2, 2)
	if got, limit := nice(), debug.SetMemoryLimit(-1); got != before || limit != memory {
		t.Errorf("got the niceness %d and the memory %d afterwards, want %d and %d", got, limit, before, memory)
	}
}
