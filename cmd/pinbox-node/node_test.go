package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// states returns the states of images by their names.
func states(s runtime.Status) map[string]runtime.State {
	m := map[string]runtime.State{}
	for _, img := range s.Images {
		m[img.Name] = img.State
	}
	return m
}

// readStatus reads the status that pinbox-node has written.
func readStatus(n *crio.Node) runtime.Status {
	var s runtime.Status
	n.Status(&s)
	return s
}

func push(t testing.TB, r *sample.Registry, repository string, sizes ...int) string {
	t.Helper()
	pin, err := r.PushStack(t.Context(), repository, sizes...)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// healthy runs a pass that must succeed, and returns its status.
func healthy(t *testing.T, n *crio.Node, args ...string) runtime.Status {
	t.Helper()
	result := n.Do("firstboot", args...)
	s := currentStatus(n)
	if result.Code != 0 || !s.Healthy() {
		t.Fatalf("got exit code %d, want 0 and a healthy status\n%s%s", result.Code, result.Out, result.Err)
	}
	return s
}

// configs returns the size of the configurations of these stacks, in bytes.
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

// layers returns the size of the blobs of a stack from the layer with this index up.
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

// A set changes: only the missing blobs are fetched. An image that is removed from the set stays pinned, since
// the store has it.
func TestOnlyMissingBlobsAreFetched(t *testing.T) {
	t.Parallel()
	registry, access := appliance.Registry(t)
	old := push(t, registry, "app/old", 50_000, 1_000)
	shared := push(t, registry, "app/shared", 50_000, 2_000)
	n := appliance.Boot(t, appliance.Options(t, sample.Set("worker", old, shared)), "")
	n.Start()
	healthy(t, n)
	fresh := push(t, registry, "app/new", 50_000, 3_000)
	more := push(t, registry, "app/more", 50_000, 3_000, 4_000)
	access.Take()
	n.WriteSet("worker-sample.yaml", sample.Set("worker", shared, fresh, more))
	s := healthy(t, n, "--set=prune=true") // does not change the read-only store
	requests := access.Take()
	// Two configurations, and two layers once each: the base is in the store, and
	// the second image has a layer of the first.
	blobs := fixtures.Blobs(requests)
	var fetched, all int64
	for _, r := range blobs {
		fetched += r.Bytes
	}
	for _, r := range requests {
		all += r.Bytes
	}
	if len(blobs) != 4 || all-fetched > 6_000 { // CRI-O asks for a manifest of 600 bytes three times, we once
		t.Errorf("got %d bytes, %d of them blobs, want 4 blobs and at most 6,000 other bytes: %v", all, fetched, requests)
	}
	if want := configs(t, []int{50_000, 3_000}, []int{50_000, 3_000, 4_000}) + layers(t, 1, 50_000, 3_000,
		4_000); fetched != want {
		t.Errorf("got %d bytes of blobs, want %d", fetched, want)
	}
	if want := `    pinned_images = ["` + more + `", "` + fresh + `", "` + old + `", "` + shared + `"]`; !strings.Contains(
		n.Dropin(), want) {
		t.Errorf("got the drop-in\n%s\nwant\n%s", n.Dropin(), want)
	}
	if len(s.Unpinned) != 0 || len(s.StoreImages) != 1 || !s.StoreImages[0].Pinned || s.StoreImages[0].Names[0] != old {
		t.Errorf("got %v unpinned and %v of stores, want %s pinned as one of the store", s.Unpinned, s.StoreImages, old)
	}
	if strays := n.Strays(); len(strays) > 0 {
		t.Errorf("got the files %v in crio.conf.d, want none", strays)
	}
	n.WriteSet("worker-sample.yaml", sample.Set("worker", shared))
	healthy(t, n, "--set=prune=true") // CRI-O reports a failure, since the base stays
	if _, all := pinnedByCRIO(t, n); slices.Contains(all, fresh) || slices.Contains(all, more) {
		t.Errorf("got the images %v, want %s and %s removed", all, fresh, more)
	}
}
