package neighbour_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// A hundred nodes get a file in at most twice the time of one, and take it from the source once. The links have the
// ratios of a site with 100 Mbit/s inside and 20 Mbit/s to the source.
//
// PINBOX_SIMULATED_NODES, _BYTES and _RATE (bytes a second of the source) set other numbers.
func TestHundredNodes(t *testing.T) {
	nodes, size, rate := number("NODES", 100), number("BYTES", 4<<20), float64(number("RATE", 1<<18))
	inside := float64(number("INSIDE", int(5*rate)))
	alone := time.Duration(float64(size) / rate * float64(time.Second)) // at least
	s := newSite(t, nodes, size, rate, inside)
	all := s.fetchAll()
	asked, most := 0, int64(0)
	for _, n := range s.nodes {
		n.want()
		if n.download.Bytes() < int64(size) {
			asked++
		}
		most = max(most, n.up.all.Load())
	}
	sent := map[int64]int{}
	for _, n := range s.nodes {
		sent[(n.up.all.Load()+int64(size)/2)/int64(size)]++
	}
	t.Logf("nodes by how often they gave the file: %v", sent)
	t.Logf("%d nodes and %s: one takes %v at least, all take %v, %.2f times as long; the source gives %s to %d of them; "+
		"a node gives %s at most", nodes, bytesize.Format(int64(size)), alone.Round(time.Millisecond),
		all.Round(time.Millisecond),
		all.Seconds()/alone.Seconds(), bytesize.Format(s.source.all.Load()), asked, bytesize.Format(most))
	if all > 2*alone {
		t.Errorf("got %v for all, want at most twice the %v of one", all, alone)
	}
	if got := s.source.all.Load(); got > 2*int64(size) {
		t.Errorf("got %d bytes from the source, want at most twice the %d of the file", got, size)
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("PINBOX_SIMULATED_" + name)); err == nil {
		return n
	}
	return otherwise
}
