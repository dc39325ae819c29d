package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// Whatever happens to one request of CRI-O or of pinbox-node, a pull is tried again within the
// pass, and CRI-O has the image as it is in the registry.
func TestFaultsOfRegistries(t *testing.T) {
	// A separate file system: other writes to the host's disk would look like a layer that is being
	// unpacked.
	n, registry, _ := smallNode(t, 64<<20, 4000)
	proxy := faults.Start(t, registry.Host)
	size := 30_000 // of a layer that no other image has
	for name, fault := range faults.All(t) {
		for _, part := range []string{"/manifests/", "/blobs/"} {
			t.Run(name+" of "+strings.Trim(part, "/"), func(t *testing.T) {
				size += 10
				pin := push(t, registry, fmt.Sprintf("app/%d", size), size)
				pin = strings.Replace(pin, registry.Host, proxy.Host, 1)
				n.WriteSet("s.yaml", sample.SetNamed("s", pin))
				proxy.Fail(fault, part, 1)
				healthy(t, n, "--stall", "3s")
				if met := proxy.Heal(); met != 1 {
					t.Errorf("got %d requests with the fault, want 1", met)
				}
				if pinned, _ := pinnedByCRIO(t, n); !slices.Contains(pinned, pin) {
					t.Errorf("got %v pinned, want %s", pinned, pin)
				}
			})
		}
	}
}
