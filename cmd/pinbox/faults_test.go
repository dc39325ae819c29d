package main

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// faultyRegistry is a registry behind a proxy, an appliance of its first image, and commands that
// fetch its second one, which has a layer more.
type faultyRegistry struct {
	proxy    *faults.Proxy
	layer    string // digest of the layer
	commands map[string][]string
}

func newFaultyRegistry(t *testing.T) faultyRegistry {
	t.Helper()
	noise := make([]byte, 200_000)                  // enough that half of it does not fit into a packet
	_, _ = rand.NewChaCha8([32]byte{3}).Read(noise) // never fails
	r := serve(t, nil)
	proxy := faults.Start(t, r.Host)
	base, more := layer(t, sample.File("base", "content")), layer(t, sample.File("noise", string(noise)))
	digest, err := more.Digest()
	if err != nil {
		t.Fatal(err)
	}
	set := func(img string) string {
		return write(t, "sets.yaml", sample.Set("worker", strings.Replace(img, r.Host, proxy.Host, 1)))
	}
	first := set(push(t, r, image(t, "amd64", base)))
	second := set(push(t, r, image(t, "amd64", base, more)))
	common := []string{"--insecure-registry=127.0.0.1", "--stall", "600ms"}
	build := append([]string{"build", "--node-binary", nodeProgram}, common...)
	old := filepath.Join(t.TempDir(), "old")
	if code, _, stderr := pinbox(t.Context(), append(build, "--set", first, "-o", old)...); code != cli.ExitOK {
		t.Fatalf("got exit code %d, want %d\n%s", code, cli.ExitOK, stderr)
	}
	return faultyRegistry{proxy, digest.String(), map[string][]string{
		"build": append(build, "--set", second),
		"delta": append([]string{"delta", "--from", old, "--set", second}, common...),
	}}
}

// run runs a command, and returns its store if it succeeds.
func (f faultyRegistry) run(t *testing.T, command, cache string) (code int, store []byte, stderr string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	args := slices.Clone(f.commands[command])
	code, _, stderr = pinbox(t.Context(), append(args, "-o", out, "--cache-dir", cache)...)
	left, err := filepath.Glob(out)
	if err != nil || (len(left) > 0) != (code == cli.ExitOK) {
		t.Errorf("got exit code %d and the output %v, %v, want output only from success", code, left, err)
	}
	if code != cli.ExitOK {
		return code, nil, stderr
	}
	stores, err := filepath.Glob(filepath.Join(out, "*.squashfs"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("got the stores %v, %v, want one", stores, err)
	}
	return code, mustRead(t, stores[0]), stderr
}

// Whatever a registry or the network does, the result is the right store, or none and an error that
// names the registry and a cure. The next run makes the right store.
func TestFaultsOfRegistries(t *testing.T) {
	for name, fault := range faults.All(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaultyRegistry(t)
			want := map[string][]byte{}
			for command := range f.commands {
				_, want[command], _ = f.run(t, command, t.TempDir())
			}
			for name, test := range map[string]struct {
				command, part string
				requests      int
			}{
				"each manifest":           {"build", "/manifests/", faults.Always},
				"each time the layer":     {"build", f.layer, faults.Always},
				"once the layer":          {"build", f.layer, 1},
				"each time, for a delta,": {"delta", f.layer, faults.Always},
			} {
				f.proxy.Fail(fault, test.part, test.requests)
				cache := t.TempDir()
				code, got, stderr := f.run(t, test.command, cache)
				if met := f.proxy.Heal(); met == 0 {
					t.Errorf("%s: got no request with the fault, want some", name)
				}
				// A request may be repeated, and all may be there before the error.
				if code != cli.ExitOK || test.requests == faults.Always && !fault.Complete {
					checkFault(t, name, fault, code, stderr)
				}
				if code == cli.ExitOK && !bytes.Equal(got, want[test.command]) {
					t.Errorf("%s: got another store, want the same bytes", name)
				}
				code, got, stderr = f.run(t, test.command, cache)
				if code != cli.ExitOK || !bytes.Equal(got, want[test.command]) {
					t.Errorf("%s, the next run: got exit code %d, want %d and the same bytes\n%s", name, code, cli.ExitOK, stderr)
				}
			}
		})
	}
}

// checkFault checks the exit code and the message of a run.
func checkFault(t *testing.T, name string, fault faults.Fault, code int, stderr string) {
	t.Helper()
	want := cli.ExitRegistry
	switch {
	case fault.Harmless:
		want = cli.ExitOK
	case fault.Damaging:
		want = cli.ExitDamaged
	}
	if code != want {
		t.Errorf("%s: got exit code %d, want %d\n%s", name, code, want, stderr)
	}
	if code != cli.ExitOK && (!strings.Contains(stderr, "127.0.0.1:") || !strings.Contains(stderr, "\nhint: ")) {
		t.Errorf("%s: got\n%s\nwant the registry and a hint", name, stderr)
	}
}
