package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// listenNotify listens as systemd does for sd_notify(3).
func listenNotify(t *testing.T) (socket string, messages func() []string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var mu sync.Mutex
	var all []string
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, string(buf[:n]))
			mu.Unlock()
		}
	}()
	return socket, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// `run` follows the sets, repairs manual changes, and notifies systemd.
func TestRunFollowsTheSetsAndRepairsDrift(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	socket, messages := listenNotify(t)
	agent := n.Pinbox("run", "--set=interval=500ms")
	agent.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
	stop := launch(t, agent, true)
	pins := func(want ...string) func() bool {
		return func() bool {
			pinned, _ := pinnedByCRIO(t, n)
			return slices.Equal(pinned, slices.Sorted(slices.Values(want)))
		}
	}
	eventually(t, "the first set is pinned", pins(a))
	n.WriteSet("t.yaml", sample.SetNamed("t", b))
	eventually(t, "another set is added", pins(a, b))
	n.RemoveSet("s.yaml")
	eventually(t, "a set is removed", pins(b))
	if _, err := n.Images().RemoveImage(t.Context(),
		&criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: b}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an image that was removed by hand is pulled again", pins(b))
	if err := os.WriteFile(n.Etc("crio.conf.d/50-pinned-images"), []byte("[crio.image]\npinned_images = []\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	n.Reload()
	eventually(t, "a pin that was removed by hand is restored", func() bool {
		return n.Dropin() == rendered(t, []string{b}) && pins(b)()
	})
	eventually(t, "status succeeds", func() bool { return n.Do("status").Code == 0 })
	for _, want := range []string{"READY=1", "WATCHDOG=1", "STATUS=all 1 images of 1 sets are pinned"} {
		eventually(t, "systemd gets "+want, func() bool { return slices.Contains(messages(), want) })
	}
	stop()
	if all := messages(); all[0] != "READY=1" {
		t.Errorf("got the first notification %s, want READY=1", all[0])
	}
}

// Without the folder of sets, nothing is unpinned.
func TestSetsFolderIsRemoved(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a := push(t, registry, "app/a", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	_, stop := start(t, n, "run")
	eventually(t, "all is pinned", func() bool { return currentStatus(n).Healthy() })
	if err := os.Rename(n.Sets(), n.Sets()+".moved"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status has the error", func() bool {
		s := currentStatus(n)
		return s.Degraded() && strings.Contains(strings.Join(s.Errors, " "), "no such file or directory")
	})
	wantPinned(t, n, a)
	if err := os.Rename(n.Sets()+".moved", n.Sets()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the folder is back", func() bool { return currentStatus(n).Healthy() })
	stop()
}

// memory is the resident set of a process, in bytes.
func memory(t testing.TB, pid int) int64 {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(content)
	if m == nil {
		t.Fatalf("got no VmRSS, want one in\n%s", content)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// nodeWith500Images boots a node with 500 images in 5 sets. Every second set also has the images of
// the set before it.
func nodeWith500Images(t testing.TB) (*crio.Node, *sample.Registry, *fixtures.Access, []string) {
	t.Helper()
	registry, access := appliance.Registry(t)
	pins, err := registry.PushMany(t.Context(), 500)
	if err != nil {
		t.Fatal(err)
	}
	var sets []byte
	for i := range 5 {
		from, to := 100*i, 100*(i+1)
		if i%2 == 1 {
			from -= 100
		}
		sets = append(append(sets, "---\n"...), sample.SetNamed(fmt.Sprintf("set-%d", i), pins[from:to]...)...)
	}
	n := appliance.Boot(t, appliance.Options(t, sets), "")
	access.Take()
	n.Start()
	return n, registry, access, pins
}

// A first boot with the store needs no registry, and does not reload CRI-O.
func Test500ImagesIn5Sets(t *testing.T) {
	t.Parallel()
	n, registry, access, pins := nodeWith500Images(t)
	s := healthy(t, n)
	if requests := access.Take(); len(requests) != 0 {
		t.Errorf("got the requests %v, want none", requests)
	}
	if log := n.Log(); strings.Contains(log, "Configuration reload") {
		t.Error("got a reload of CRI-O, want none")
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.Images) != 500 || len(s.Sets) != 5 || s.Sets[1].Images != 200 {
		t.Errorf("got %q and %d sets, want 500 images in 5 sets, 200 in the second", s.Summary(), len(s.Sets))
	}
	cmd, stop := start(t, n, "run", "--set=interval=300ms")
	awaitPasses(t, n, 4)
	if rss := memory(t, cmd.Process.Pid); rss > 50<<20 {
		t.Errorf("got %d MB of memory for 500 images, want at most 50", rss>>20)
	} else {
		t.Logf("%d MB of memory", rss>>20)
	}
	// One image is removed from two sets. It stays pinned, since a store has it.
	n.WriteSet("set-0.yaml", sample.SetNamed("set-0", pins[1:100]...))
	n.WriteSet("set-1.yaml", sample.SetNamed("set-1", pins[1:200]...))
	eventually(t, "the image is in no set", func() bool {
		s := currentStatus(n)
		return len(s.Images) == 499 && s.Healthy() && len(s.StoreImages) == 1 && s.StoreImages[0].Names[0] == pins[0]
	})
	if pinned, all := pinnedByCRIO(t, n); len(pinned) != 500 || len(all) != 500 {
		t.Errorf("got %d of %d images pinned, want all 500", len(pinned), len(all))
	}
	stop()
}

// awaitPasses waits for so many passes after now.
func awaitPasses(t testing.TB, n *crio.Node, passes int) {
	t.Helper()
	for last := currentStatus(n).Time; passes > 0; passes-- {
		eventually(t, "another pass is made", func() bool { return currentStatus(n).Time.After(last) })
		last = currentStatus(n).Time
	}
}

func TestPruneRemovesUnusedImages(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	n := appliance.Bare(t)
	writeDropin(t, n, "10-pause", "[crio.image]\npause_image = \""+pins.Pause+"\"\n")
	n.Start()
	used, kept, dropped := pins.Docker, push(t, registry, "app/b", 2000), push(t, registry, "app/c", 3000)
	n.WriteSet("s.yaml", sample.SetNamed("s", pins.Pause, used, kept, dropped))
	healthy(t, n)
	id, _ := n.RunContainer(used, "wait")
	n.State(id, criapi.ContainerState_CONTAINER_RUNNING)
	n.WriteSet("s.yaml", sample.SetNamed("s", kept))
	if s := healthy(t, n); len(s.Unpinned) != 3 {
		t.Errorf("got %v unpinned, want 3 images", s.Unpinned)
	}
	if _, all := pinnedByCRIO(t, n); len(all) != 4 {
		t.Errorf("without --prune: got %v, want 4 images", all)
	}
	if s := healthy(t, n, "--set=prune=true"); !slices.Equal(s.Unpinned, []string{used, pins.Pause}) {
		t.Errorf("got %v unpinned, want %s and %s", s.Unpinned, used, pins.Pause)
	}
	if _, all := pinnedByCRIO(t, n); len(all) != 3 || slices.Contains(all, dropped) {
		t.Errorf("with --prune: got %v, want 3 images without %s", all, dropped)
	}
	if _, err := n.Runtime().StopContainer(t.Context(), &criapi.StopContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Runtime().RemoveContainer(t.Context(), &criapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	healthy(t, n, "--set=prune=true")
	if _, all := pinnedByCRIO(t, n); slices.Contains(all, used) || !slices.Contains(all, pins.Pause) {
		t.Errorf("after its container was removed: got %v, want %s and not %s", all, pins.Pause, used)
	}
}
