package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// isFor reports whether a request is for a manifest, or for a blob, of the image app/bad.
func isFor(r *http.Request, kind string) bool {
	return strings.Contains(r.URL.Path, "app/bad/"+kind+"/")
}

// answer makes a registry answer these requests with a status.
func answer(kind string, status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !isFor(r, kind) {
			return false
		}
		w.Header().Set("Retry-After", "1")
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		}
		w.WriteHeader(status)
		return true
	}
}

// times limits a fault to so many requests.
func times(n int32, fault func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	var count atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) bool {
		if count.Add(1) > n { // counted first: a fault may panic
			return false
		}
		if fault(w, r) {
			return true
		}
		count.Add(-1)
		return false
	}
}

// reset closes the connection within a blob; stall keeps it open and sends nothing more.
func reset(w http.ResponseWriter, r *http.Request) bool {
	if !begin(w, r) {
		return false
	}
	panic(http.ErrAbortHandler)
}

func stall(w http.ResponseWriter, r *http.Request) bool {
	if !begin(w, r) {
		return false
	}
	<-r.Context().Done()
	return true
}

func begin(w http.ResponseWriter, r *http.Request) bool {
	if !isFor(r, "blobs") {
		return false
	}
	w.Header().Set("Content-Length", "100000")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(make([]byte, 1000))
	w.(http.Flusher).Flush()
	return true
}

func wrong(kind string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !isFor(r, kind) {
			return false
		}
		_, _ = w.Write([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`))
		return true
	}
}

// After a transient fault, the pull is tried again within the pass, which succeeds.
func TestTransientRegistryFaults(t *testing.T) {
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"500 for a manifest":         times(2, answer("manifests", 500)),
		"500 for a blob":             times(2, answer("blobs", 500)),
		"429 for a manifest":         times(1, answer("manifests", 429)),
		"429 for a blob":             times(1, answer("blobs", 429)),
		"reset within a blob":        times(2, reset),
		"other content than ordered": times(1, wrong("blobs")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, registry, access := boot(t)
			bad := push(t, registry, "app/bad", 30_000)
			n.WriteSet("s.yaml", sample.SetNamed("s", bad))
			access.Fault(fault)
			healthy(t, n)
		})
	}
}

// A permanent fault has a class and a text. The pull is tried again only where that may help, and other
// images are pulled.
func TestPermanentRegistryFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		class runtime.Class
		tries int // of blobs or manifests, at least and about
	}{
		"401 for a manifest":         {answer("manifests", 401), runtime.Auth, 1},
		"401 for a blob":             {answer("blobs", 401), runtime.Auth, 1},
		"403 for a manifest":         {answer("manifests", 403), runtime.Auth, 1},
		"404 for a manifest":         {answer("manifests", 404), runtime.NotFound, 1},
		"404 for a blob":             {answer("blobs", 404), runtime.NotFound, 1},
		"500 for a manifest":         {answer("manifests", 500), runtime.Network, 5},
		"500 for a blob":             {answer("blobs", 500), runtime.Network, 5},
		"wrong manifest":             {wrong("manifests"), runtime.Other, 5},
		"other content than ordered": {wrong("blobs"), runtime.Other, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, registry, access := boot(t)
			good, bad := push(t, registry, "app/good", 1000), push(t, registry, "app/bad", 30_000)
			n.WriteSet("s.yaml", sample.SetNamed("s", bad, good))
			access.Take()
			var count atomic.Int32
			access.Fault(func(w http.ResponseWriter, r *http.Request) bool {
				if !test.fault(w, r) {
					return false
				}
				count.Add(1)
				return true
			})
			s := degraded(t, n, "s", bad+": "+string(test.class)+": ")
			if got := int(count.Load()); got < test.tries || test.tries == 1 && got > 2 {
				t.Errorf("got %d attempts, want %d", got, test.tries)
			}
			if got := states(s); got[good] != runtime.Pinned || got[bad] != runtime.Missing {
				t.Errorf("got %v, want %s pinned and %s missing", got, good, bad)
			}
			access.Fault(nil)
			healthy(t, n)
		})
	}
}

// A registry that keeps the connection open and sends nothing delays a pull by --stall. The pull is
// also cancelled in CRI-O.
func TestRegistryThatStalls(t *testing.T) {
	// A separate file system: other writes to the host's disk would look like a layer that is being
	// unpacked.
	n, registry, access := smallNode(t, 64<<20, 2000)
	bad := push(t, registry, "app/bad", 30_000)
	n.WriteSet("s.yaml", sample.SetNamed("s", bad))
	var cancelled atomic.Int32
	access.Fault(times(1, func(w http.ResponseWriter, r *http.Request) bool {
		if !isFor(r, "blobs") {
			return false
		}
		stall(w, r)
		cancelled.Add(1)
		return true
	}))
	start := time.Now()
	result := n.Do("firstboot", "--stall", "1s")
	if result.Code != 0 || !strings.Contains(result.Err, "the registry stalls") ||
		!strings.Contains(result.Err, "class=network") {
		t.Errorf("got exit code %d and\n%s\nwant 0 and a registry that stalls", result.Code, result.Err)
	}
	if took := time.Since(start); took < time.Second || took > time.Minute {
		t.Errorf("got %v, want between a second and a minute", took)
	}
	if got := cancelled.Load(); got != 1 {
		t.Errorf("got %d requests cancelled by CRI-O, want 1", got)
	}
}

// start runs a command of pinbox-node until the test ends or stop is called. stop returns its output.
func start(t *testing.T, n *crio.Node, command string, args ...string) (cmd *exec.Cmd, stop func() string) {
	t.Helper()
	cmd = n.Pinbox(command, args...)
	return cmd, launch(t, cmd, command == "run")
}

// launch starts a process. stop ends it by SIGTERM and returns its output; the exit code is to be 0 if
// succeeds.
func launch(t *testing.T, cmd *exec.Cmd, succeeds bool) (stop func() string) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() string {
		_ = cmd.Process.Signal(syscall.SIGTERM) // or it has ended
		if err := cmd.Wait(); err != nil && succeeds {
			t.Errorf("%v: got %v, want no error\n%s", cmd.Args, err, log.String())
		}
		return log.String()
	})
	t.Cleanup(func() { stop() })
	return stop
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got a timeout, want: %s", what)
		}
	}
}

// currentStatus returns the published status, or an empty one before the first.
func currentStatus(n *crio.Node) runtime.Status {
	if _, err := os.Stat(n.Path("lib/status.json")); err != nil {
		return runtime.Status{}
	}
	return readStatus(n)
}

func TestCRIORestartsDuringAPull(t *testing.T) {
	n, registry, access := boot(t)
	bad := push(t, registry, "app/bad", 30_000)
	n.WriteSet("s.yaml", sample.SetNamed("s", bad))
	pulling := make(chan struct{})
	access.Fault(times(1, func(w http.ResponseWriter, r *http.Request) bool {
		if !isFor(r, "blobs") {
			return false
		}
		close(pulling)
		return stall(w, r)
	}))
	_, stop := start(t, n, "firstboot")
	<-pulling
	n.Stop(syscall.SIGKILL)
	n.Start()
	eventually(t, "the image is pulled", func() bool { return currentStatus(n).Healthy() })
	wantPinned(t, n, bad)
	if log := stop(); !strings.Contains(log, "class=other") {
		t.Errorf("got the log\n%s\nwant class=other", log)
	}
}

func TestSocketMissingAtStart(t *testing.T) {
	n, registry, _ := boot(t)
	pin := push(t, registry, "app/a", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	n.Stop(syscall.SIGTERM)
	_, stop := start(t, n, "run", "--wait", "300ms")
	eventually(t, "the status has the error that CRI-O does not answer", func() bool {
		s := currentStatus(n)
		return s.Degraded() && len(s.Errors) == 1 && strings.Contains(s.Errors[0],
			"CRI-O does not answer on "+n.Path("run/crio.sock")) && s.Images[0].State == runtime.Unknown
	})
	n.Start()
	eventually(t, "all is pinned", func() bool { return currentStatus(n).Healthy() })
	wantPinned(t, n, pin)
	stop()
}

// A change of the sets cancels running pulls, also in CRI-O.
func TestChangeOfSetsCancelsPulls(t *testing.T) {
	n, registry, access := boot(t)
	bad, good := push(t, registry, "app/bad", 30_000), push(t, registry, "app/good", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", bad))
	pulling, cancelled := make(chan struct{}), make(chan struct{})
	access.Fault(times(1, func(w http.ResponseWriter, r *http.Request) bool {
		if !isFor(r, "blobs") {
			return false
		}
		close(pulling)
		stall(w, r)
		close(cancelled)
		return true
	}))
	_, stop := start(t, n, "run")
	<-pulling
	eventually(t, "the status shows the pull", func() bool {
		s := currentStatus(n)
		return s.Progress != nil && s.Progress.OfImages == 1 && s.Images[0].State == runtime.Pulling
	})
	if result := n.Do("status"); result.Code != 1 || !strings.Contains(result.Out, "pulling: 0 of 1 images") {
		t.Errorf("status: got exit code %d and\n%s\nwant 1 and a pull", result.Code, result.Out)
	}
	if result := n.Do("firstboot", "--wait", "200ms"); result.Code != 7 ||
		!strings.Contains(result.Err, "another pinbox-node is running") {
		t.Errorf("a second process: got exit code %d and\n%s\nwant 7", result.Code, result.Err)
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", good))
	<-cancelled
	eventually(t, "the other image is pinned", func() bool { return currentStatus(n).Healthy() })
	wantPinned(t, n, good)
	stop()
	if blobs := fixtures.Blobs(access.Take()); len(blobs) == 0 {
		t.Error("got no requests for blobs, want some")
	}
}
