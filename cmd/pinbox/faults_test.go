package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// faultyRegistry is a registry with two images, of which the second has a layer more.
type faultyRegistry struct {
	host, first, second string
	layer               string // digest of the layer
}

func newFaultyRegistry(t *testing.T) faultyRegistry {
	t.Helper()
	noise := randomBytes(200_000) // enough that half of it does not fit into a packet
	r := serve(t, nil)
	base, more := layer(t, sample.File("base", "content")), layer(t, sample.File("noise", string(noise)))
	digest, err := more.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return faultyRegistry{r.Host, push(t, r, image(t, "amd64", base)), push(t, r, image(t, "amd64", base, more)),
		digest.String()}
}

// faultyCommand is a command that fetches the second image from behind a proxy.
type faultyCommand struct {
	proxy *faults.Proxy
	args  []string
}

// command is a build, or a delta from an appliance of the first image.
func (r faultyRegistry) command(t *testing.T, name string) faultyCommand {
	t.Helper()
	proxy := faults.Start(t, r.host)
	with := func(command, img string, flags ...string) []string {
		set := write(t, "sets.yaml", sample.Set("worker", strings.Replace(img, r.host, proxy.Host, 1)))
		return append([]string{command, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "--set", set}, flags...)
	}
	if name == "build" {
		return faultyCommand{proxy, with("build", r.second)}
	}
	old := filepath.Join(t.TempDir(), "old")
	if code, _, stderr := pinbox(t.Context(), with("build", r.first, "-o", old)...); code != fault.OK {
		t.Fatalf("got exit code %d, want %d\n%s", code, fault.OK, stderr)
	}
	return faultyCommand{proxy, with("delta", r.second, "--from", old)}
}

// run runs a command, and returns its store if it succeeds.
func (f faultyCommand) run(t *testing.T, cache string, flags ...string) (code int, store []byte, stderr string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	args := append(slices.Clone(f.args), flags...)
	code, _, stderr = pinbox(t.Context(), append(args, "-o", out, "--cache-dir", cache)...)
	left, err := filepath.Glob(out)
	if err != nil || (len(left) > 0) != (code == fault.OK) {
		t.Errorf("got exit code %d and the output %v, %v, want output only from success", code, left, err)
	}
	if code != fault.OK {
		return code, nil, stderr
	}
	stores, err := filepath.Glob(filepath.Join(out, "*.squashfs"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("got the stores %v, %v, want one", stores, err)
	}
	return code, mustRead(t, stores[0]), stderr
}

// After the status 429 the library asks again by itself, and sleeps before that. A bug was that a build with a short
// limit took the sleep for a connection that had stalled.
func TestRegistryThatSlowsABuildDown(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	r := serve(t, damage("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		after := "0"
		if asked.Add(1) > 1 {
			after = "60" // longer than a build with a short limit waits
		}
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))))
	patiently(t, func(limit time.Duration) error {
		asked.Store(0)
		err := failedBuild(t, sets, fault.Registry, []string{
			r.Host + ": registry admits no more requests for now; asked again after ", "hint: wait and run the command again",
		}, "--stall", limit.String())
		if got := asked.Load(); got != 2 {
			err = errors.Join(err, fmt.Errorf("got %d requests for the manifest, want 2", got))
		}
		return err
	})
}

// Whatever a registry or the network does, the result is the right store, or none and an error that
// names the registry and a cure. The next run makes the right store.
func TestFaultsOfRegistries(t *testing.T) {
	t.Parallel()
	registry := newFaultyRegistry(t)
	all := faults.All(t)
	for _, test := range []struct {
		title, command string
		manifest       bool // instead of the layer
		requests       int
	}{
		{"each manifest", "build", true, faults.Always}, // first: for one that does not end, the library waits longest
		{"each time the layer", "build", false, faults.Always},
		{"once the layer", "build", false, 1},
		{"each time, for a delta", "delta", false, faults.Always},
	} {
		for name, broken := range all {
			t.Run(name+"/"+test.title, func(t *testing.T) {
				t.Parallel()
				f := registry.command(t, test.command)
				part := registry.layer
				if test.manifest {
					part = "/manifests/"
				}
				_, want, _ := f.run(t, t.TempDir())
				cache := t.TempDir()
				f.proxy.Fail(broken, part, test.requests)
				code, got, stderr := f.run(t, cache, stall(broken, 300*time.Millisecond, test.requests)...)
				met := f.proxy.Heal()
				for limit := time.Second; len(stall(broken, 0, test.requests)) > 0 && met == 0; limit *= 2 { // a busy machine stalled before
					f.proxy.Fail(broken, part, test.requests)
					code, got, stderr = f.run(t, cache, stall(broken, limit, test.requests)...)
					met = f.proxy.Heal()
				}
				if met == 0 {
					t.Error("got no request with the fault, want some")
				}
				// A request may be repeated, and all may be there before the error.
				if code != fault.OK || test.requests == faults.Always && !broken.Complete {
					checkFault(t, broken, code, stderr)
				}
				if code == fault.OK && !bytes.Equal(got, want) {
					t.Error("got another store, want the same bytes")
				}
				code, got, stderr = f.run(t, cache)
				if code != fault.OK || !bytes.Equal(got, want) {
					t.Errorf("the next run: got exit code %d, want %d and the same bytes\n%s", code, fault.OK, stderr)
				}
			})
		}
	}
}

// stall is the flag for a fault that stalls, or after which a request is made again until the patience ends. For any
// other, a busy machine has as long as it takes.
func stall(broken faults.Fault, limit time.Duration, requests int) (flags []string) {
	if broken.Endless || requests == faults.Always && !broken.Harmless && !broken.Damaging {
		flags = []string{"--stall", limit.String()}
	}
	return flags
}

// checkFault checks the exit code and the message of a run.
func checkFault(t *testing.T, broken faults.Fault, code int, stderr string) {
	t.Helper()
	want := fault.Registry
	switch {
	case broken.Harmless:
		want = fault.OK
	case broken.Damaging:
		want = fault.Damaged
	}
	if code != want {
		t.Errorf("got exit code %d, want %d\n%s", code, want, stderr)
	}
	if code != fault.OK && (!strings.Contains(stderr, "127.0.0.1:") || !strings.Contains(stderr, "\nhint: ")) {
		t.Errorf("got\n%s\nwant the registry and a hint", stderr)
	}
}
