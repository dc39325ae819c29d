package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// isFor reports whether a request is for a manifest, or for a blob, of the image app/bad or app/bad-7.
func isFor(r *http.Request, kind string) bool {
	return strings.Contains(r.URL.Path, "app/bad") && strings.Contains(r.URL.Path, "/"+kind+"/")
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

// faulty pushes an image app/bad-0, app/bad-1, ... for each fault, and makes the registry fail for it. It returns the
// pins by the names of the faults, and for each fault a count of the requests that met it.
func faulty(
	t *testing.T, registry *sample.Registry, access *fixtures.Access,
	faults map[string]func(http.ResponseWriter, *http.Request) bool,
) (pins map[string]string, met map[string]*atomic.Int32) {
	t.Helper()
	pins, met = map[string]string{}, map[string]*atomic.Int32{}
	faultOf := map[string]string{} // by the folder of a repository
	for name := range faults {
		repository := fmt.Sprintf("app/bad-%d", len(pins))
		pins[name], met[name] = push(t, registry, repository, 30_000+len(pins)), new(atomic.Int32)
		faultOf["/"+repository+"/"] = name
	}
	access.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		for folder, name := range faultOf {
			if strings.Contains(r.URL.Path, folder) {
				if !faults[name](w, r) {
					return false
				}
				met[name].Add(1)
				return true
			}
		}
		return false
	})
	return pins, met
}

// After a transient fault, the pull is tried again within the pass, which succeeds.
func TestTransientRegistryFaults(t *testing.T) {
	t.Parallel()
	n, registry, access := boot(t)
	faults := map[string]func(http.ResponseWriter, *http.Request) bool{
		"500 for a manifest":         times(2, answer("manifests", 500)),
		"500 for a blob":             times(2, answer("blobs", 500)),
		"429 for a manifest":         times(1, answer("manifests", 429)),
		"429 for a blob":             times(1, answer("blobs", 429)),
		"reset within a blob":        times(2, reset),
		"other content than ordered": times(1, wrong("blobs")),
	}
	pins, met := faulty(t, registry, access, faults)
	n.WriteSet("s.yaml", sample.SetNamed("s", slices.Collect(maps.Values(pins))...))
	healthy(t, n)
	for name := range faults {
		if name != "reset within a blob" && met[name].Load() == 0 { // which panics before it is counted
			t.Errorf("%s: got no request that met it, want one", name)
		}
	}
}

// A permanent fault has a class and a text. The pull is tried again only where that may help, and other
// images are pulled.
func TestPermanentRegistryFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
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
	}
	n, registry, access := boot(t)
	faults := map[string]func(http.ResponseWriter, *http.Request) bool{}
	for name, test := range tests {
		faults[name] = test.fault
	}
	pins, met := faulty(t, registry, access, faults)
	for name, pin := range pins {
		set := strings.ReplaceAll(name, " ", "-")
		n.WriteSet(set+".yaml", sample.SetNamed(set, pin))
	}
	good := push(t, registry, "app/good", 1000)
	n.WriteSet("good.yaml", sample.SetNamed("good", good))
	s := degraded(t, n, "", "")
	if got := states(s)[good]; got != runtime.Pinned {
		t.Errorf("got the good image %s, want it pinned", got)
	}
	for name, test := range tests {
		if got := int(met[name].Load()); got < test.tries || test.tries == 1 && got > 3 { // CRI-O 1.36 tries an image as an artifact, too
			t.Errorf("%s: got %d attempts, want %d", name, got, test.tries)
		}
		if got := states(s)[pins[name]]; got != runtime.Missing {
			t.Errorf("%s: got the image %s, want it missing", name, got)
		}
		wantFailed(t, s, strings.ReplaceAll(name, " ", "-"), pins[name]+": "+string(test.class)+": ")
	}
	access.Fault(nil)
	healthy(t, n)
}

// A registry that keeps the connection open and sends nothing delays a pull by --stall. The pull is
// also cancelled in CRI-O.
func TestRegistryThatStalls(t *testing.T) {
	t.Parallel()
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
	result := n.Do("firstboot", "--set=stall=1s")
	if result.Code != 0 || !strings.Contains(result.Err, "the registry stalls") ||
		!strings.Contains(result.Err, "class=network") {
		t.Errorf("got exit code %d and\n%s\nwant 0 and a registry that stalls", result.Code, result.Err)
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
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	fixtures.Until(t, func() error {
		if !is() {
			return errors.New("not: " + what)
		}
		return nil
	})
}

// currentStatus returns the published status, or an empty one before the first.
func currentStatus(n *crio.Node) runtime.Status {
	if _, err := os.Stat(n.Path("lib/status.json")); err != nil {
		return runtime.Status{}
	}
	return readStatus(n)
}

func TestCRIORestartsDuringAPull(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
