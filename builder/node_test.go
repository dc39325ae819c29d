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

// boot builds an appliance, stops the registry, applies the config with the real Ignition, and starts a
// real CRI-O with it.
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
			t.Errorf("got %v unpinned, want all images pinned", img.RepoDigests)
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
				t.Errorf("got the status %v, %v of %s; want %s, pinned", status.GetImage(), err, name, img.Config)
			}
		}
	}
}

// CRI-O has all images pinned at its start, and runs them without a registry, also after it has cleaned
// its main store.
func TestNodeHasEveryImageWithoutARegistry(t *testing.T) {
	t.Parallel()
	n, pins, lock := boot(t, nil)
	checkImages(t, n, lock)

	id, log := n.RunContainer(pins.Mixed)
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
	if out, err := os.ReadFile(log); err != nil || !strings.Contains(string(out), "hello from the store") {
		t.Errorf("got the output %q, %v; want %q", out, err, "hello from the store")
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
			t.Errorf("got %v in the main store after the wipe, want nothing", entries)
		}
		n.Start()
		checkImages(t, n, lock)
	})
}

// A container that runs from the store survives when CRI-O is killed. The control is CRI-O without the
// drop-in, which wipes its main store.
func TestContainerSurvivesAKilledCRIO(t *testing.T) {
	t.Parallel()
	for _, repair := range []bool{false, true} {
		t.Run(map[bool]string{false: "with the drop-in", true: "without the drop-in"}[repair], func(t *testing.T) {
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
			survives := len(list.Containers) == 1 && list.Containers[0].Id == id &&
				list.Containers[0].State == criapi.ContainerState_CONTAINER_RUNNING
			after := entries(t, n.Path("root/overlay-containers"))
			switch {
			case !repair && (!survives || after < before):
				t.Errorf("got the containers %v and %d entries in the main store, want %s running and %d entries",
					list.Containers, after, id, before)
			case repair && (survives || !strings.Contains(n.Log(), "Wiping storage directory")):
				t.Errorf("got the containers %v, want a wiped main store\n%s", list.Containers, n.Log())
			}
		})
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

// CRI-O runs images of a store of each compression.
func TestCompressionsOfTheStore(t *testing.T) {
	t.Parallel()
	for _, compression := range []squashfs.Compression{squashfs.Gzip, squashfs.None} {
		t.Run(string(compression), func(t *testing.T) {
			n, pins, lock := boot(t, func(o *builder.Options, _ sample.Pins) {
				o.Appliance.Spec.Store.Compression = compression
			})
			checkImages(t, n, lock)
			id, _ := n.RunContainer(pins.Mixed)
			if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
				t.Errorf("got exit code %d of the container, want 0", code)
			}
		})
	}
}
