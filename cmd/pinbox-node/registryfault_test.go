package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// Whatever happens to one request of CRI-O or of pinbox-node, a pull is tried again within the
// pass, and CRI-O has the image as it is in the registry.
func TestFaultsOfRegistries(t *testing.T) {
	t.Parallel()
	// A separate file system: other writes to the host's disk would look like a layer that is being
	// unpacked.
	n, registry, _ := smallNode(t, 64<<20, 4000)
	size := 30_000 // of a layer that no other image has
	for name, args := range map[string][]string{
		"fault of manifests": nil, "fault of blobs": nil,
		"endless": {"--set=stall=8s"}, // with more time than a pull takes on a busy machine
	} {
		t.Run(name, func(t *testing.T) { // all of them in one pass, each by a proxy of its own
			proxies, pins := map[string]*faults.Proxy{}, map[string]string{}
			for fault, f := range faults.All(t) {
				for _, part := range []string{"manifests", "blobs"} {
					if f.Endless && name != "endless" || !f.Endless && name != "fault of "+part {
						continue
					}
					proxy, what := faults.Start(t, registry.Host), fault+" of "+part
					proxy.Fail(f, "/"+part+"/", 1)
					size += 10
					pin := push(t, registry, fmt.Sprintf("app/%d", size), size)
					proxies[what], pins[what] = proxy, strings.Replace(pin, registry.Host, proxy.Host, 1)
				}
			}
			n.WriteSet("s.yaml", sample.SetNamed("s", slices.Collect(maps.Values(pins))...))
			healthy(t, n, append(args, "--set=parallel="+strconv.Itoa(len(pins)))...)
			pinned, _ := pinnedByCRIO(t, n)
			for what, proxy := range proxies {
				if met := proxy.Heal(); met != 1 {
					t.Errorf("%s: got %d requests with the fault, want 1", what, met)
				}
				if !slices.Contains(pinned, pins[what]) {
					t.Errorf("%s: got %v pinned, want %s", what, pinned, pins[what])
				}
			}
		})
	}
}
