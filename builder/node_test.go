package builder_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// boot builds an appliance, stops the registry, and boots a node from it: the
// real Ignition applies the config, a real CRI-O starts with it.
func boot(t *testing.T, change func(*builder.Options, sample.Pins)) (*crio.Node, sample.Pins, pinset.Lock) {
	t.Helper()
	registry, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	if change != nil {
		change(&o, pins)
	}
	n := appliance.Boot(t, o, pins.Pause)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	return n, pins, appliance.Lock(t, o.Out)
}

// checkImages compares what CRI-O lists with the lock.
func checkImages(t *testing.T, n *crio.Node, lock pinset.Lock) {
	t.Helper()
	list, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, img := range lock.Images {
		want = append(want, img.Config.Encoded())
	}
	for _, img := range list.Images {
		got = append(got, img.Id)
		if !img.Pinned {
			t.Errorf("%v is not pinned", img.RepoDigests)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ListImages (-lock +CRI-O):\n%s", diff)
	}
	for _, img := range lock.Images {
		repository, _, _ := strings.Cut(img.Pin, "@")
		for _, name := range []string{img.Pin, repository + "@" + img.Manifest.String()} {
			status, err := n.Images().ImageStatus(t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: name}})
			if err != nil || status.Image == nil || status.Image.Id != img.Config.Encoded() || !status.Image.Pinned {
				t.Errorf("ImageStatus of %s: %v, %v", name, status.GetImage(), err)
			}
		}
	}
}

// The main promise: CRI-O sees every image at once, pinned, and runs them with
// no registry to ask; and no cleaning of its own store takes them away.
func TestNodeHasEveryImageWithoutARegistry(t *testing.T) {
	n, pins, lock := boot(t, nil)
	checkImages(t, n, lock)

	id, log := n.RunContainer(pins.Mixed)
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("the container ended with %d", code)
	}
	if out, err := os.ReadFile(log); err != nil || !strings.Contains(string(out), "hello from the store") {
		t.Errorf("the container wrote %q, %v", out, err)
	}

	t.Run("after a new version of CRI-O", func(t *testing.T) {
		n.Stop(syscall.SIGTERM)
		if err := os.WriteFile(n.Path("lib/version"), []byte("1.33.0"), 0o644); err != nil {
			t.Fatal(err)
		}
		n.Start()
		checkImages(t, n, lock)
	})
	t.Run("after crio wipe", func(t *testing.T) {
		n.Stop(syscall.SIGKILL)
		for _, name := range []string{"run/version", "lib/version", "lib/clean.shutdown"} {
			_ = os.Remove(n.Path(name)) // as after a reboot
		}
		n.Wipe()
		if entries, err := os.ReadDir(n.Path("root")); err == nil && len(entries) > 0 {
			t.Errorf("the wipe left %v in the main store: this test shows nothing", entries)
		}
		n.Start()
		checkImages(t, n, lock)
	})
}

// CRI-O that was killed keeps a container that runs from the store, thanks to
// our drop-in; the second half shows that it would wipe its main store without.
func TestContainerOutlivesAKilledCRIO(t *testing.T) {
	for _, repair := range []bool{false, true} {
		n, pins, lock := boot(t, func(o *builder.Options, _ sample.Pins) { o.Appliance.Spec.Node.InternalRepair = repair })
		id, _ := n.RunContainer(pins.Docker, "wait")
		n.State(id, criapi.ContainerState_CONTAINER_RUNNING)
		before := entries(t, n.Path("root/overlay-containers"))
		n.Stop(syscall.SIGKILL)
		n.Start()
		checkImages(t, n, lock)
		list, err := n.Runtime().ListContainers(t.Context(), &criapi.ListContainersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		kept := len(list.Containers) == 1 && list.Containers[0].Id == id &&
			list.Containers[0].State == criapi.ContainerState_CONTAINER_RUNNING
		after := entries(t, n.Path("root/overlay-containers"))
		switch {
		case !repair && (!kept || after < before):
			t.Errorf("with our drop-in: containers %v, %d of %d entries in the main store", list.Containers, after, before)
		case repair && (kept || !strings.Contains(n.Log(), "Wiping storage directory")):
			t.Errorf("without our drop-in nothing was lost: the drop-in, or this test, is of no use\n%s", n.Log())
		}
	}
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(list)
}

// CRI-O runs images of a store of every compression.
func TestCompressionsOfTheStore(t *testing.T) {
	for _, compression := range []squashfs.Compression{squashfs.Gzip, squashfs.None} {
		t.Run(string(compression), func(t *testing.T) {
			n, pins, lock := boot(t, func(o *builder.Options, _ sample.Pins) {
				o.Appliance.Spec.Store.Compression = compression
			})
			checkImages(t, n, lock)
			id, _ := n.RunContainer(pins.Mixed)
			if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
				t.Errorf("the container ended with %d", code)
			}
		})
	}
}
