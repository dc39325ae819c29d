package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A user's life with a lock: tags are locked, move, are updated.
func TestLock(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	tag := registry.Host + "/tools/app:1"
	point := func(pin string) {
		fixtures.Run(t, "skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false", "docker://"+pin, "docker://"+tag)
	}
	point(pins.Mixed)
	config := write(t, "site.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: site}\nspec:\n  sources:\n  - images: ["+tag+"]\n"))
	file := strings.TrimSuffix(config, ".yaml") + ".lock.json"
	do := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := pinbox(t.Context(), args...)
		if code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
		return stdout, stderr
	}
	build := func(want int, more ...string) (out, stderr string) {
		t.Helper()
		out = filepath.Join(t.TempDir(), "out")
		_, stderr = do(want, append([]string{"build", "-c", config, "--tls-verify=false", "--node-binary", fixtures.Program(t, nodePackage), "-o", out}, more...)...)
		return out, stderr
	}

	if _, stderr := build(exitInput, "--locked"); !strings.Contains(stderr, "site.lock.json") {
		t.Errorf("no lock: %s", stderr)
	}
	if stdout, _ := do(0, "lock", "-c", config, "--tls-verify=false"); !strings.Contains(stdout, file+" locks 1 image") {
		t.Error(stdout)
	}
	first, _ := build(0, "--locked")
	point(pins.Docker)
	second, _ := build(0, "--locked") // as it was
	if stdout, _ := do(0, "diff", first, second); !strings.Contains(stdout, "images: 0 added, 0 removed, 1 kept") {
		t.Error(stdout)
	}
	do(0, "lock", "-c", config, "--tls-verify=false") // tags stay without --update
	build(0, "--locked")
	do(0, "lock", "-c", config, "--tls-verify=false", "--update")
	third, _ := build(0, "--locked")
	stdout, _ := do(0, "diff", first, third)
	for _, want := range []string{"- " + strings.Replace(pins.Mixed, "sample/mixed", "tools/app", 1)[:20], "+ ", tag + " has moved", "images: 1 added, 1 removed, 0 kept", "layers: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("diff does not say %q:\n%s", want, stdout)
		}
	}
	var d pinset.Difference
	stdout, _ = do(0, "diff", first, filepath.Join(third, "pinbox.lock.json"), "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Added) != 1 || d.LayersAdded.Count == 0 {
		t.Errorf("%v\n%s", err, stdout)
	}

	more := strings.Replace(string(mustRead(t, config)), "["+tag+"]", "["+tag+", '"+pins.Pause+"']", 1)
	if err := os.WriteFile(config, []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr := build(exitVerify, "--locked"); !strings.Contains(stderr, "+ "+pins.Pause) {
		t.Errorf("the inputs have drifted: %s", stderr)
	}
	build(0)
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr := build(exitInput); !strings.Contains(stderr, file) {
		t.Errorf("a broken lock: %s", stderr)
	}
	build(exitUsage, "--locked", "--update")
	do(exitUsage, "lock", "--image", tag)
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
