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

// part says whether a request is for a manifest or for a blob of the image app/bad.
func part(r *http.Request, kind string) bool {
	return strings.Contains(r.URL.Path, "app/bad/"+kind+"/")
}

// answer has a registry answer requests for one part with a status.
func answer(kind string, status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !part(r, kind) {
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

// times has a fault come so often only.
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

// reset cuts the connection within a blob; stall keeps it open and sends no more.
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
	if !part(r, "blobs") {
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
		if !part(r, kind) {
			return false
		}
		_, _ = w.Write([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`))
		return true
	}
}

// What passes is tried again within the pass, and the pass ends well.
func TestRegistryFaultsThatPass(t *testing.T) {
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
			bad := pushed(t, registry, "app/bad", 30_000)
			n.WriteSet("s.yaml", sample.SetNamed("s", bad))
			access.Fault(fault)
			healthy(t, n)
		})
	}
}

// What does not pass has a class, and a text; it is tried again only where that
// may help, and others do not suffer.
func TestRegistryFaultsThatStay(t *testing.T) {
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
			good, bad := pushed(t, registry, "app/good", 1000), pushed(t, registry, "app/bad", 30_000)
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
				t.Errorf("tried %d times, want %d", got, test.tries)
			}
			if got := states(s); got[good] != runtime.Pinned || got[bad] != runtime.Missing {
				t.Errorf("%v", got)
			}
			access.Fault(nil)
			healthy(t, n)
		})
	}
}

// A registry that keeps the connection open and sends nothing costs the time
// that --stall says, not the night; the pull is called off in CRI-O too.
func TestRegistryThatStalls(t *testing.T) {
	// A store of its own: what others write to this machine's disk would look like
	// a layer that is being unpacked.
	n, registry, access := small(t, 64<<20, 2000)
	bad := pushed(t, registry, "app/bad", 30_000)
	n.WriteSet("s.yaml", sample.SetNamed("s", bad))
	var gone atomic.Int32
	access.Fault(times(1, func(w http.ResponseWriter, r *http.Request) bool {
		if !part(r, "blobs") {
			return false
		}
		stall(w, r)
		gone.Add(1)
		return true
	}))
	start := time.Now()
	said := n.Do("firstboot", "--stall", "1s")
	if said.Code != 0 || !strings.Contains(said.Err, "the registry stalls") ||
		!strings.Contains(said.Err, "class=network") {
		t.Errorf("exit code %d\n%s", said.Code, said.Err)
	}
	if took := time.Since(start); took < time.Second || took > time.Minute {
		t.Errorf("took %v", took)
	}
	if gone.Load() != 1 {
		t.Error("CRI-O has not hung up")
	}
}

// background runs a command of pinbox-node until the test ends or stop is called.
func background(t *testing.T, n *crio.Node, command string, args ...string) (cmd *exec.Cmd, stop func() string) {
	t.Helper()
	cmd = n.Pinbox(command, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() string {
		_ = cmd.Process.Signal(syscall.SIGTERM) // or it has ended
		if err := cmd.Wait(); err != nil && command == "run" {
			t.Errorf("%s ended with %v\n%s", command, err, log.String())
		}
		return log.String()
	})
	t.Cleanup(func() { stop() })
	return cmd, stop
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for long: %s", what)
		}
	}
}

// statusNow is the published status, or an empty one before the first.
func statusNow(n *crio.Node) runtime.Status {
	if _, err := os.Stat(n.Path("lib/status.json")); err != nil {
		return runtime.Status{}
	}
	return published(n)
}

func TestCRIORestartsDuringAPull(t *testing.T) {
	n, registry, access := boot(t)
	bad := pushed(t, registry, "app/bad", 30_000)
	n.WriteSet("s.yaml", sample.SetNamed("s", bad))
	pulling := make(chan struct{})
	access.Fault(times(1, func(w http.ResponseWriter, r *http.Request) bool {
		if !part(r, "blobs") {
			return false
		}
		close(pulling)
		return stall(w, r)
	}))
	_, stop := background(t, n, "firstboot")
	<-pulling
	n.Stop(syscall.SIGKILL)
	n.Start()
	eventually(t, "the image comes after all", func() bool { return statusNow(n).Healthy() })
	wantPinned(t, n, bad)
	if log := stop(); !strings.Contains(log, "class=other") {
		t.Errorf("the log says nothing of it:\n%s", log)
	}
}

func TestSocketMissingAtStart(t *testing.T) {
	n, registry, _ := boot(t)
	pin := pushed(t, registry, "app/a", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	n.Stop(syscall.SIGTERM)
	_, stop := background(t, n, "run", "--wait", "300ms")
	eventually(t, "it says that CRI-O does not answer", func() bool {
		s := statusNow(n)
		return s.Degraded() && len(s.Errors) == 1 && strings.Contains(s.Errors[0],
			"CRI-O does not answer on "+n.Path("run/crio.sock")) && s.Images[0].State == runtime.Unknown
	})
	n.Start()
	eventually(t, "all is pinned", func() bool { return statusNow(n).Healthy() })
	wantPinned(t, n, pin)
	stop()
}

// A change calls off the pulls that run, in CRI-O too.
func TestChangeOfSetsCallsOffPulls(t *testing.T) {
	n, registry, access := boot(t)
	bad, good := pushed(t, registry, "app/bad", 30_000), pushed(t, registry, "app/good", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", bad))
	pulling, hungUp := make(chan struct{}), make(chan struct{})
	access.Fault(times(1, func(w http.ResponseWriter, r *http.Request) bool {
		if !part(r, "blobs") {
			return false
		}
		close(pulling)
		stall(w, r)
		close(hungUp)
		return true
	}))
	_, stop := background(t, n, "run")
	<-pulling
	eventually(t, "it says what it does", func() bool {
		s := statusNow(n)
		return s.Progress != nil && s.Progress.OfImages == 1 && s.Images[0].State == runtime.Pulling
	})
	if said := n.Do("status"); said.Code != 1 || !strings.Contains(said.Out, "pulling: 0 of 1 images") {
		t.Errorf("status: %d\n%s", said.Code, said.Out)
	}
	if said := n.Do("firstboot", "--wait", "200ms"); said.Code != 7 ||
		!strings.Contains(said.Err, "another pinbox-node is at work") {
		t.Errorf("a second process: %d\n%s", said.Code, said.Err)
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", good))
	<-hungUp
	eventually(t, "the other image is pinned", func() bool { return statusNow(n).Healthy() })
	wantPinned(t, n, good)
	stop()
	if blobs := fixtures.Blobs(access.Take()); len(blobs) == 0 {
		t.Error("no blobs were asked for: this test shows nothing")
	}
}
