package main

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// stallAt keeps the blob of this number of app/bad open in its middle, and says when it does so. Before, and once
// released, the registry works.
func stallAt(number int32) (fault func(http.ResponseWriter, *http.Request) bool, stalls chan struct{}, release func()) {
	var blobs atomic.Int32
	var released atomic.Bool
	stalls = make(chan struct{})
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request) bool {
		if released.Load() || !isFor(r, "blobs") || blobs.Add(1) < number {
			return false
		}
		once.Do(func() { close(stalls) })
		return stall(w, r)
	}, stalls, func() { released.Store(true) }
}

// A node that dies in the middle of a pull, all of its programs at once, comes back by itself: what it had is there
// or is pulled again, what it pulled is whole, and the report of before its death is not taken for one of now. That
// holds for a blob that is being fetched, for an image of which one layer is unpacked, and for a power cut after
// which crio-wipe runs.
func TestNodeDiesInAPull(t *testing.T) {
	t.Parallel()
	type death struct {
		blob   int32
		reboot bool
	}
	deaths := map[string]death{"in its first blob": {1, false}, "by a power cut in its last blob": {3, true}}
	if fixtures.Soak(t, 1) > 1 {
		deaths["in its last blob"], deaths["by a power cut"] = death{3, false}, death{1, true}
	}
	for name, c := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, registry, access := boot(t)
			good, bad := push(t, registry, "app/good", 1_000), push(t, registry, "app/bad", 30_000, 40_000)
			n.WriteSet("s.yaml", sample.SetNamed("s", good))
			healthy(t, n)
			n.WriteSet("s.yaml", sample.SetNamed("s", good, bad))
			fault, stalls, release := stallAt(c.blob)
			access.Fault(fault)
			agent := n.Pinbox("run")
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			<-stalls
			eventually(t, "the status shows the pull", func() bool { return states(currentStatus(n))[bad] == runtime.Pulling })
			_ = agent.Process.Kill()
			n.Stop(syscall.SIGKILL)
			_ = agent.Wait() // it was killed
			release()
			if c.reboot {
				powerCut(t, n)
			}
			n.Start()
			if r := n.Do("status"); r.Code != 1 || strings.Contains(r.Out, "pulling") {
				t.Errorf("status after the death: got exit code %d, want 1 and no pull\n%s%s", r.Code, r.Out, r.Err)
			}
			_, stop := start(t, n, "run")
			eventually(t, "all is pinned", func() bool { return hasAll(currentStatus(n), []string{good, bad}) })
			stop()
			wantPinned(t, n, bad, good)
			n.Stop(syscall.SIGTERM)
			if complaints := oracle.Check(t, oracle.Open(t, n.Path("root"))); len(complaints) > 0 {
				t.Errorf("got the complaints %v of containers/storage, want none", complaints)
			}
		})
	}
}

// powerCut makes the files of a node as they are when it boots after it was cut off: crio-wipe.service runs before
// CRI-O.
func powerCut(t *testing.T, n *crio.Node) {
	t.Helper()
	for _, name := range []string{"run/version", "lib/version", "lib/clean.shutdown", "lib/status.json"} {
		if err := os.RemoveAll(n.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	n.Wipe()
}
