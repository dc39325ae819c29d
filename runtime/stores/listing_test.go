package stores_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A real CRI-O cannot list any image with the store, although each of its documents has its digest: the
// store is removed by itself, and CRI-O lists as before.
func TestStoreThatStopsCRIOFromListing(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	pin, err := registry.PushStack(t.Context(), "app", 1000)
	if err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, appliance.Options(t, sample.SetNamed("worker", pin)), "")
	n.Start()
	folder := testStore{n: 9, release: pinset.ReleaseID{Name: "appliance"}}.folder(t)
	mounted := func() int { return strings.Count(n.Run("cat", "/proc/self/mountinfo"), " /var/lib/pinbox/stores/") }
	r := n.Do("attach", filepath.Join(folder, "delta.squashfs"))
	if r.Code != 4 || !strings.Contains(r.Err, "CRI-O cannot list its images with the store") {
		t.Errorf("got exit code %d, want 4 and the reason\n%s%s", r.Code, r.Out, r.Err)
	}
	if _, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{}); err != nil || mounted() != 1 {
		t.Errorf("got %v with %d mounted stores, want the appliance's own", err, mounted())
	}
	if said := n.Do("status"); said.Code != 0 || !strings.Contains(said.Out, "refused") {
		t.Errorf("got %+v, want the refused store and the reason", said)
	}
	if text, err := os.ReadFile(filepath.Join(n.Sets(), "worker.yaml")); err != nil || !strings.Contains(string(text), pin) {
		t.Errorf("got the set %s, %v, want that of the appliance", text, err)
	}
	// Without CRI-O nobody can be asked.
	n.Stop(syscall.SIGTERM)
	n.Do("attach", "--wait", "1s", "--keep-sets", filepath.Join(folder, "delta.squashfs"))
	if mounted() != 2 {
		t.Errorf("got %d mounted stores, want both", mounted())
	}
}
