package builder_test

import (
	"os"
	"strings"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// A real CRI-O has the images of a store of each format pinned, and runs one, with the registry stopped.
func TestFormatsOfTheStore(t *testing.T) {
	for _, name := range format.Names() {
		t.Run(name, func(t *testing.T) {
			fixtures.NeedRoot(t)
			n, pins, lock := boot(t, func(o *builder.Options, _ sample.Pins) {
				o.Appliance.Spec.Store.Format = format.Name(name)
			})
			checkImages(t, n, lock)
			id, log := n.RunContainer(pins.Mixed)
			if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
				t.Errorf("got exit code %d of the container, want 0", code)
			}
			if out, err := os.ReadFile(log); err != nil || !strings.Contains(string(out), "hello from the store") {
				t.Errorf("got the output %q, %v; want %q", out, err, "hello from the store")
			}
			if got := n.Do("status"); got.Code != 0 {
				t.Errorf("got exit code %d of pinbox-node status, want 0\n%s%s", got.Code, got.Out, got.Err)
			}
		})
	}
}
