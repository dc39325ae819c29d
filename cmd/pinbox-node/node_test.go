package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// states of the images, by name.
func states(s runtime.Status) map[string]runtime.State {
	m := map[string]runtime.State{}
	for _, img := range s.Images {
		m[img.Name] = img.State
	}
	return m
}

// published is the status that pinbox-node has written.
func published(n *crio.Node) runtime.Status {
	var s runtime.Status
	n.Status(&s)
	return s
}

func pushed(t testing.TB, r *sample.Registry, repository string, sizes ...int) string {
	t.Helper()
	pin, err := r.PushStack(t.Context(), repository, sizes...)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// healthy runs a pass that must end well.
func healthy(t *testing.T, n *crio.Node, args ...string) runtime.Status {
	t.Helper()
	said := n.Do("firstboot", args...)
	s := published(n)
	if said.Code != 0 || !s.Healthy() {
		t.Fatalf("exit code %d\n%s%s", said.Code, said.Out, said.Err)
	}
	return s
}

// The main promise on the node: a first boot with the store needs no registry,
// and takes no time.
func TestFirstBootOf200ImagesAsksNoRegistry(t *testing.T) {
	registry, access := appliance.Registry(t)
	pins, err := registry.PushMany(t.Context(), 200)
	if err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, appliance.Options(t, sample.Set("worker", pins...)), "")
	n.Start()
	access.Take()
	start := time.Now()
	s := healthy(t, n)
	took := time.Since(start)
	if requests := access.Take(); len(requests) != 0 {
		t.Errorf("the registry was asked: %v", requests)
	}
	if len(s.Images) != 200 || s.Sets[0].Pinned != 200 {
		t.Errorf("%s", s.Summary())
	}
	t.Logf("200 images in %v", took)
	if took > 10*time.Second {
		t.Errorf("200 images took %v", took)
	}
	if log := n.Log(); strings.Contains(log, "Configuration reload") {
		t.Error("CRI-O was told to reload, though nothing had changed")
	}
}

// configs is the size of the configurations of these stacks, in bytes.
func configs(t *testing.T, stacks ...[]int) (sum int64) {
	t.Helper()
	for _, sizes := range stacks {
		img, err := sample.Stack(sizes...)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.RawConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		sum += int64(len(config))
	}
	return sum
}

// layers is the size of the blobs of a stack from the layer of this index up.
func layers(t *testing.T, from int, sizes ...int) (sum int64) {
	t.Helper()
	img, err := sample.Stack(sizes...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all[from:] {
		size, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		sum += size
	}
	return sum
}

// A set changes: only the missing blobs travel, what was removed is unpinned, and
// what is shared stays.
func TestOnlyTheDeltaTravels(t *testing.T) {
	registry, access := appliance.Registry(t)
	old := pushed(t, registry, "app/old", 50_000, 1_000)
	shared := pushed(t, registry, "app/shared", 50_000, 2_000)
	n := appliance.Boot(t, appliance.Options(t, sample.Set("worker", old, shared)), "")
	n.Start()
	healthy(t, n)
	fresh := pushed(t, registry, "app/new", 50_000, 3_000)
	more := pushed(t, registry, "app/more", 50_000, 3_000, 4_000)
	access.Take()
	n.WriteSet("worker-sample.yaml", sample.Set("worker", shared, fresh, more))
	s := healthy(t, n, "--prune") // which leaves a read-only store alone
	requests := access.Take()
	// Two configurations, and two layers once each: the base is in the store, and
	// the second image has a layer of the first.
	blobs := fixtures.Blobs(requests)
	var fetched, travelled int64
	for _, r := range blobs {
		fetched += r.Bytes
	}
	for _, r := range requests {
		travelled += r.Bytes
	}
	if len(blobs) != 4 || travelled-fetched > 6_000 { // CRI-O asks for a manifest of 600 bytes three times, we once
		t.Errorf("%d bytes travelled, %d of them blobs: %v", travelled, fetched, requests)
	}
	if want := configs(t, []int{50_000, 3_000}, []int{50_000, 3_000, 4_000}) + layers(t, 1, 50_000, 3_000,
		4_000); fetched != want {
		t.Errorf("%d bytes of blobs travelled, want %d", fetched, want)
	}
	if want := `    pinned_images = ["` + more + `", "` + fresh + `", "` + shared + `"]`; !strings.Contains(n.Dropin(),
		want) {
		t.Errorf("the drop-in is\n%s, want\n%s", n.Dropin(), want)
	}
	if len(s.Unpinned) != 1 || s.Unpinned[0] != old {
		t.Errorf("unpinned: %v", s.Unpinned)
	}
	if strays := n.Strays(); len(strays) > 0 {
		t.Errorf("files in crio.conf.d: %v", strays)
	}
	n.WriteSet("worker-sample.yaml", sample.Set("worker", shared))
	healthy(t, n, "--prune") // which CRI-O calls a failure: the base stays
	if _, all := pinnedByCRIO(t, n); slices.Contains(all, fresh) || slices.Contains(all, more) {
		t.Errorf("what was pulled over the store has not gone: %v", all)
	}
}
