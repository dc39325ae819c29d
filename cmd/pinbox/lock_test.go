package main

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// site is an appliance of one tag, which can be moved.
type site struct {
	t         *testing.T
	config    string
	tag       string
	pins      sample.Pins
	nodeFlags []string
}

func newSite(t *testing.T) site {
	t.Helper()
	registry, pins := fixtures.Samples(t)
	s := site{
		t: t, tag: registry.Host + "/tools/app:1", pins: pins, nodeFlags: []string{
			"--insecure-registry=127.0.0.1", "--node-binary", nodeProgram,
		},
	}
	s.config = write(t, "site.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: site}\n"+
		"spec:\n  sources:\n  - images: ["+s.tag+"]\n"))
	s.moveTag(pins.Mixed)
	return s
}

func (s site) lock() string { return strings.TrimSuffix(s.config, ".yaml") + ".lock.json" }

// moveTag moves the tag to another image.
func (s site) moveTag(pin string) {
	s.t.Helper()
	fixtures.Run(s.t, "skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--src-tls-verify=false",
		"--dest-tls-verify=false", "docker://"+pin, "docker://"+s.tag)
}

func (s site) run(want int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	code, stdout, stderr := pinbox(s.t.Context(), args...)
	if code != want {
		s.t.Fatalf("%v: got exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

func (s site) build(want int, more ...string) (out, stderr string) {
	s.t.Helper()
	out = filepath.Join(s.t.TempDir(), "out")
	_, stderr = s.run(want, slices.Concat([]string{"build", "-c", s.config, "-o", out}, s.nodeFlags, more)...)
	return out, stderr
}

// A user's life with a lock: tags are locked, move, are updated.
func TestLock(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if stdout, _ := s.run(0, "lock", "-c", s.config, "--insecure-registry=127.0.0.1"); !strings.Contains(stdout,
		s.lock()+" locks 1 image") {
		t.Error(stdout)
	}
	first, _ := s.build(0, "--locked")
	s.moveTag(s.pins.Docker)
	second, _ := s.build(0, "--locked") // as it was
	if stdout, _ := s.run(0, "diff", first, second); !strings.Contains(stdout, "images: 0 changed, 0 added, 0 removed, 1 unchanged") {
		t.Error(stdout)
	}
	s.run(0, "lock", "-c", s.config, "--insecure-registry=127.0.0.1") // tags stay without --update
	s.build(0, "--locked")
	s.run(0, "lock", "-c", s.config, "--insecure-registry=127.0.0.1", "--update")
	third, _ := s.build(0, "--locked")
	stdout, _ := s.run(0, "diff", first, third)
	for _, want := range []string{
		"changed  " + path.Base(s.tag) + "  ", s.tag + " is a tag of another image now",
		"images: 1 changed, 0 added, 0 removed, 0 unchanged", "layers: ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("diff: got\n%s\nwant %q", stdout, want)
		}
	}
	var d pinset.Difference
	stdout, _ = s.run(0, "diff", first, filepath.Join(third, "pinbox.lock.json"), "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Changed) != 1 || d.LayersAdded.Count == 0 {
		t.Errorf("got %v, want JSON with the difference\n%s", err, stdout)
	}
}

// What is not as it was locked is not built.
func TestLockedRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, stderr := s.build(fault.Input, "--locked"); !strings.Contains(stderr, "site.lock.json") {
		t.Errorf("without a lock: got %s", stderr)
	}
	s.run(0, "lock", "-c", s.config, "--insecure-registry=127.0.0.1")
	more := strings.Replace(string(mustRead(t, s.config)), "["+s.tag+"]", "["+s.tag+", '"+s.pins.Pause+"']", 1)
	if err := os.WriteFile(s.config, []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr := s.build(fault.Damaged, "--locked"); !strings.Contains(stderr, "+ "+s.pins.Pause) {
		t.Errorf("after the inputs have changed: got %s", stderr)
	}
	s.build(0)
	if err := os.WriteFile(s.lock(), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr := s.build(fault.Input); !strings.Contains(stderr, s.lock()) {
		t.Errorf("with a broken lock: got %s", stderr)
	}
	s.build(fault.Usage, "--locked", "--update")
	s.run(fault.Usage, "lock", "--image", s.tag)
}

// A tag is another image in a later archive of oc-mirror. A bug was to use that without --update.
func TestLockOfArchives(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	const name = "quay.example.com/site/app:1"
	archive := func(pin, isc string) string {
		m := sample.Mirror{Dir: t.TempDir()}
		if err := errors.Join(m.Add(t.Context(), pin, "site/app:1"), m.Write(isc, sample.ImageSet(name))); err != nil {
			t.Fatal(err)
		}
		return m.Dir
	}
	first, second := archive(pins.Mixed, "isc_2026-11-21T02:04:52Z"), archive(pins.Other, "isc_2026-11-22T02:04:52Z")
	config := filepath.Join(t.TempDir(), "site.yaml")
	for _, step := range []struct {
		paths  string
		args   []string
		code   int
		output []string
	}{
		{first, []string{"lock"}, fault.OK, []string{"site.lock.json locks 1 image"}},
		{first + ", " + second, []string{"plan", "--no-trunc", "--locked"}, fault.OK, []string{digestOf(pins.Mixed)}},
		{first + ", " + second, []string{"lock"}, fault.OK, []string{"site.lock.json locks 1 image"}},
		{second, []string{"plan"}, fault.Input, []string{digestOf(pins.Mixed), digestOf(pins.Other), name, "--update"}},
		{second, []string{"lock", "--update"}, fault.OK, []string{"site.lock.json locks 1 image"}},
		{second, []string{"plan", "--no-trunc", "--locked"}, fault.OK, []string{digestOf(pins.Other)}},
	} {
		t.Run(strings.Join(step.args, " "), func(t *testing.T) {
			text := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: site}\nspec:\n  sources:\n" +
				"  - ocMirror: {paths: [" + step.paths + "]}\n"
			if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := pinbox(t.Context(), append(step.args, "-c", config)...)
			if code != step.code || slices.ContainsFunc(step.output, func(s string) bool {
				return !strings.Contains(stdout+stderr, s)
			}) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", code, step.code, step.output, stdout, stderr)
			}
		})
	}
}

// digestOf returns the digest of a pin, in hexadecimal digits.
func digestOf(pin string) string { return pin[strings.LastIndex(pin, ":")+1:] }

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
