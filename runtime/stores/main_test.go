package stores_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/root"
)

func TestMain(m *testing.M) {
	if root.Init() { // the library that writes a store of format dir runs this program
		return
	}
	fixtures.Waiting(4) // for CRI-O, containers and disks
	// A sixth of the time went into collections of garbage, here and in the short commands, CRI-O and runc that tests
	// start: they have it too.
	if os.Getenv("GOGC") == "" {
		_ = os.Setenv("GOGC", strconv.Itoa(collectedAt)) // a valid name
		debug.SetGCPercent(collectedAt)
	}
	fixtures.Main(m)
}

// collectedAt is the GOGC of tests: in percent, by how much the heap grows until its garbage is collected.
const collectedAt = 400
