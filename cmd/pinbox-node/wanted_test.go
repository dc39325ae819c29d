package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// wantedBy are the names of the images that a status says were wanted.
func wantedBy(s runtime.Status) (names []string) {
	for _, img := range s.Wanted {
		names = append(names, img.Name)
	}
	return names
}

// An image that a release lacks costs one courier: CRI-O is asked for it in vain, the report brings its name home, the
// next delta has it, and then the node misses nothing.
func TestWantedImageComesWithTheNextDelta(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	first := []string{push(t, registry, "app", 50_000)}
	one := release(t, 1, first)
	n := appliance.Boot(t, one, first[0])
	n.Start()
	repository, _, _ := strings.Cut(push(t, registry, "late", 20_000), "@")
	late, lost := repository+":v1", repository+":lost"
	pull := func(name string) error {
		_, err := n.Images().PullImage(t.Context(), &criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: name}})
		return err
	}
	for _, name := range []string{late, lost, late} {
		if err := pull(name); err == nil {
			t.Fatalf("got %s, want that the registry has no such tag", name)
		}
	}
	s := healthy(t, n)
	if got := wantedBy(s); !slices.Equal(got, []string{lost, late}) || s.Wanted[1].Times != 2 || s.Wanted[0].Times != 1 {
		t.Fatalf("got %+v, want %s, and twice %s", s.Wanted, lost, late)
	}
	if mode := n.Run("stat", "-c", "%a", "/var/lib/pinbox/wanted.json"); mode != "600\n" {
		t.Errorf("got the mode %s, want 600", mode)
	}
	checkRun(t, n, 0, "status", "wanted and not here: "+late+", 2 times since ")

	img, err := sample.Stack(20_000)
	if err == nil {
		_, err = registry.Tag(t.Context(), "late", "v1", img)
	}
	other, otherErr := sample.Stack(10_000)
	if err = errors.Join(err, otherErr); err == nil {
		_, err = registry.Tag(t.Context(), "late", "lost", other)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := pull(lost); err != nil { // a pull that succeeds
		t.Fatal(err)
	}
	if got := wantedBy(healthy(t, n)); !slices.Equal(got, []string{late}) {
		t.Errorf("got %v, want only %s, since the other one was pulled", got, late)
	}

	reports := t.TempDir()
	checkRun(t, n, 0, "report --set nodeName=site1 -o "+filepath.Join(reports, "site1.json"))
	pinbox := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	count := "pods wanted 1 image that their nodes do not have, such as " + late
	if out := fixtures.Run(t, pinbox, "fleet", "status", reports); !strings.Contains(out, count) {
		t.Errorf("fleet status: got %s, want %q", out, count)
	}
	args := []string{"--from", reports, "-c", applianceFile(t, 2, first), "--node-binary", one.NodeBinary}
	without := pinboxDelta(t, 0, append(args, "-o", filepath.Join(t.TempDir(), "deltas"))...)
	text := late + " was wanted on site1 and is not in the release"
	if !strings.Contains(strings.Join(without.Warnings, "\n"), text) {
		t.Errorf("got the warnings %q, want %q", without.Warnings, text)
	}
	out := filepath.Join(t.TempDir(), "deltas")
	with := pinboxDelta(t, 0, append(args, "--wanted", reports, "-o", out)...)
	if text := strings.Join(with.Warnings, "\n"); !strings.Contains(text, late+" is taken since it was wanted on site1") ||
		strings.Contains(text, "not in the release") {
		t.Errorf("got the warnings %s, want that %s is taken", text, late)
	}
	checkRun(t, n, 0, "attach "+filepath.Join(out, "delta-1"))
	if got := wantedBy(readStatus(n)); len(got) > 0 {
		t.Errorf("got %v wanted after the delta, want nothing", got)
	}
	request := &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: late}}
	if state, err := n.Images().ImageStatus(t.Context(), request); err != nil || state.Image == nil {
		t.Errorf("got %v, %v, want %s", state, err, late)
	}
}
