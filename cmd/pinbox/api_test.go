package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/storage/fault"
)

// manifestsOf returns the names and the content of all manifests of a folder.
func manifestsOf(t *testing.T, out string) string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.yaml", "sets/*.yaml", "nodes/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(out, artifact.ManifestsDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatal("got no manifests, want some")
	}
	var b strings.Builder
	for _, file := range files {
		b.WriteString(filepath.Base(file) + "\n" + string(mustRead(t, file)))
	}
	return b.String()
}

// --api does what spec.openshift.api does, for each command that writes manifests.
func TestAPIOfPinnedImageSets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.build(fault.Usage, "--api=v1alpha1") // it is for no cluster
	file := string(mustRead(t, s.config))
	cluster := func(fields string) {
		t.Helper()
		if err := os.WriteFile(s.config, []byte(file+"  openshift: {"+fields+"}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cluster(`version: "4.18", api: v1alpha1`)
	byField, _ := s.build(0)
	cluster(`version: "4.18"`)
	byDefault, _ := s.build(0)
	byFlag, _ := s.build(0, "--api=v1alpha1")
	if got := manifestsOf(t, byFlag); got != manifestsOf(t, byField) || got == manifestsOf(t, byDefault) {
		t.Errorf("got the manifests\n%s\nwant those of the field", got)
	}
	delta := filepath.Join(t.TempDir(), "delta")
	s.moveTag(s.pins.Docker)
	s.run(0, "delta", "--from", byFlag, "-c", s.config, "-o", delta, "--api=v1alpha1", s.nodeFlags[0])
	if got := manifestsOf(t, delta); !strings.Contains(got, "machineconfiguration.openshift.io/v1alpha1") {
		t.Errorf("got the manifests of the delta\n%s\nwant sets of v1alpha1", got)
	}
	if _, stderr := s.build(fault.Input, "--api=v1"); !strings.Contains(stderr, "api v1 is of OpenShift 4.19 and newer") {
		t.Errorf("got %s", stderr)
	}
}
