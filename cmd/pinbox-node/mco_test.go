package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/layout"
)

// The tests of the Machine Config Operator and of origin for pinned images, by
// their numbers: E from test/extended-priv/mco_pinnedimages.go, O from
// test/extended/machine_config/pinnedimages.go.

// boot starts a node without a store, and a registry.
func boot(t *testing.T) (*crio.Node, *sample.Registry, *fixtures.Access) {
	t.Helper()
	registry, access := appliance.Registry(t)
	n := appliance.Bare(t)
	n.Start()
	return n, registry, access
}

// pinnedByCRIO returns the images that CRI-O reports as pinned, and all its images.
func pinnedByCRIO(t *testing.T, n *crio.Node) (pinned, all []string) {
	t.Helper()
	list, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range list.Images {
		all = append(all, img.RepoDigests...)
		if img.Pinned {
			pinned = append(pinned, img.RepoDigests...)
		}
	}
	slices.Sort(pinned)
	slices.Sort(all)
	return pinned, all
}

func wantPinned(t *testing.T, n *crio.Node, want ...string) {
	t.Helper()
	slices.Sort(want)
	if pinned, _ := pinnedByCRIO(t, n); !slices.Equal(pinned, want) {
		t.Errorf("got %v pinned by CRI-O, want %v", pinned, want)
	}
}

// degraded runs a pass that must fail, and checks the error of a set.
func degraded(t *testing.T, n *crio.Node, set, text string, args ...string) runtime.Status {
	t.Helper()
	result := n.Do("firstboot", args...)
	s := currentStatus(n)
	if result.Code != 1 || !s.Degraded() {
		t.Fatalf("got exit code %d and %+v, want 1 and a degraded node\n%s%s", result.Code, s.Conditions,
			result.Out, result.Err)
	}
	for _, c := range s.Conditions {
		if c.Type == runtime.DegradedCondition && (c.Reason != "PrefetchFailed" ||
			c.Message != "One or more PinnedImageSet is experiencing an error. See PinnedImageSet list for more details.") {
			t.Errorf("got the condition %+v, want PrefetchFailed", c)
		}
		if c.Type == runtime.ProgressingCondition && c.Status == "True" {
			t.Error("got a node that is progressing and degraded, want only degraded")
		}
	}
	if set != "" {
		wantFailed(t, s, set, text)
	}
	return s
}

// wantFailed checks the error of a set.
func wantFailed(t *testing.T, s runtime.Status, set, text string) {
	t.Helper()
	for _, st := range s.Sets {
		if st.Name == set && st.LastFailedGeneration == st.DesiredGeneration && strings.Contains(st.LastFailedGenerationError, text) {
			return
		}
	}
	t.Errorf("got the sets %+v, want that %s has failed with %q", s.Sets, set, text)
}

func TestE1DiskPressureDegradesUntilSpaceReturns(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	pin := push(t, registry, "app/large", 6_000_000)
	n := appliance.Bare(t)
	n.SmallRoot(64<<20, 2000)
	n.Start()
	n.Fill(6 << 20) // about 90 %
	n.WriteSet("a.yaml", sample.SetNamed("a", pin))
	s := degraded(t, n, "a", "Pulling the images on node12 needs about ", "--set=reserve=16Gi,10%")
	if s.Images[0].ErrorClass != runtime.Space {
		t.Errorf("got %+v, want the class space", s.Images[0])
	}
	if _, all := pinnedByCRIO(t, n); len(all) > 0 || n.Dropin() != "" {
		t.Errorf("got the images %v and the drop-in %q, want none", all, n.Dropin())
	}
	n.Unfill()
	healthy(t, n, "--set=reserve=16Gi,10%")
	wantPinned(t, n, pin)
}

func TestE2PinThenUnpinOneThenAll(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
	healthy(t, n)
	wantPinned(t, n, a, b)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	healthy(t, n)
	wantPinned(t, n, a)
	n.RemoveSet("s.yaml")
	mayHaveNoSets(t, n)
	s := healthy(t, n)
	wantPinned(t, n)
	if _, all := pinnedByCRIO(t, n); len(all) != 2 || len(s.Unpinned) != 2 {
		t.Errorf("got the images %v with %v unpinned, want 2 unpinned", all, s.Unpinned)
	}
}

// E3 and E4: the source cannot be reached, a mirror of its repository or of its
// whole domain can.
func TestE3E4ImagesComeFromMirrors(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	pin := push(t, registry, "mirror/app/a", 1000)
	digest := pin[strings.Index(pin, "@"):]
	for name, conf := range map[string]string{
		"E3 a repository": "[[registry]]\nprefix = \"source.invalid/app/a\"\nlocation = \"source.invalid/app/a\"\n" +
			"blocked = true\n[[registry.mirror]]\nlocation = \"" + registry.Host + "/mirror/app/a\"\n",
		"E4 a whole domain": "[[registry]]\nprefix = \"source.invalid:443\"\nlocation = \"source.invalid:443\"\n" +
			"[[registry.mirror]]\nlocation = \"" + registry.Host + "/mirror\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := "source.invalid"
			if strings.Contains(conf, host+":443") { // the registry's own port may begin so
				host += ":443"
			}
			n := appliance.Bare(t)
			if err := os.WriteFile(n.Path("registries.conf"), []byte(conf), 0o644); err != nil {
				t.Fatal(err)
			}
			// CRI-O uses TLS for a mirror unless its entry is insecure.
			insecure := "\n[[registry]]\nlocation = \"" + registry.Host + "\"\ninsecure = true\n"
			conf = strings.Replace(conf, "location = \""+registry.Host, "insecure = true\nlocation = \""+registry.Host, 1)
			if err := os.WriteFile(n.Path("registries.conf"), []byte(conf+insecure), 0o644); err != nil {
				t.Fatal(err)
			}
			n.Start()
			n.WriteSet("s.yaml", sample.SetNamed("s", host+"/app/a"+digest))
			healthy(t, n)
			wantPinned(t, n, host+"/app/a"+digest)
		})
	}
}

func TestE5AnImageThatDoesNotExist(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	good := push(t, registry, "app/a", 1000)
	bad := registry.Host + "/app/no-such@sha256:" + strings.Repeat("0", 64)
	n.WriteSet("good.yaml", sample.SetNamed("good", good))
	n.WriteSet("bad.yaml", sample.SetNamed("bad", bad))
	s := degraded(t, n, "bad", bad+": not found: ")
	wantPinned(t, n, good) // one failure does not stop the others
	if s.Sets[1].Name != "good" || s.Sets[1].LastFailedGenerationError != "" ||
		s.Sets[1].CurrentGeneration != s.Sets[1].DesiredGeneration {
		t.Errorf("got %+v, want the set good without an error", s.Sets[1])
	}
	n.RemoveSet("bad.yaml")
	healthy(t, n)
}

// collect removes images as the kubelet does: those that are not pinned.
func collect(t *testing.T, n *crio.Node) {
	t.Helper()
	list, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range list.Images {
		if img.Pinned {
			continue
		}
		if _, err := n.Images().RemoveImage(t.Context(),
			&criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: img.Id}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestE6GarbageCollectionKeepsWhatIsPinned(t *testing.T) {
	t.Parallel()
	n, registry, access := boot(t)
	kept, gone := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", kept, gone))
	healthy(t, n)
	n.WriteSet("s.yaml", sample.SetNamed("s", kept))
	healthy(t, n)
	collect(t, n)
	if _, all := pinnedByCRIO(t, n); !slices.Equal(all, []string{kept}) {
		t.Errorf("after the collection: got the images %v, want %s", all, kept)
	}
	n.Stop(syscall.SIGTERM) // a reboot
	n.Start()
	access.Take()
	healthy(t, n)
	wantPinned(t, n, kept)
	if requests := access.Take(); len(requests) > 0 {
		t.Errorf("after a reboot: got the requests %v, want none", requests)
	}
}

func TestE9SetDeletedWhileTheNodeReboots(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	pin := push(t, registry, "app/a", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	healthy(t, n)
	n.Stop(syscall.SIGKILL)
	if err := os.Remove(n.Path("lib/status.json")); err != nil { // it was in /run
		t.Fatal(err)
	}
	n.RemoveSet("s.yaml")
	mayHaveNoSets(t, n)
	n.Start()
	healthy(t, n)
	wantPinned(t, n)
}

// mayHaveNoSets says in the node's configuration that it is meant to have no sets, as it may of an operator.
func mayHaveNoSets(t *testing.T, n *crio.Node) {
	t.Helper()
	config := filepath.Join(n.Root, layout.NodeConfigPath)
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, layout.NodeConfig{Sets: layout.SetsOptional}.Render(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestE11TwoSetsShareAnImage(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	shared, own := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("one.yaml", sample.SetNamed("one", shared))
	n.WriteSet("two.yaml", sample.SetNamed("two", shared, own))
	s := healthy(t, n)
	if len(s.Images) != 2 {
		t.Errorf("got the images %+v, want 2", s.Images)
	}
	n.RemoveSet("two.yaml")
	healthy(t, n)
	wantPinned(t, n, shared)
}

// The cluster does not take such a set; the node keeps what it had.
func TestE12DuplicateImagesAreRefused(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	healthy(t, n)
	n.WriteSet("s.yaml", sample.SetNamed("s", b, b))
	degraded(t, n, "s.yaml", fmt.Sprintf("Duplicate value: %q", b))
	wantPinned(t, n, a)
}

func TestO1O2CustomPoolPinsAndKeepsAfterCollection(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	custom, worker, master := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000),
		push(t, registry, "app/c", 3000)
	n.WriteSet("custom.yaml", sample.Set("custom", custom))
	n.WriteSet("worker.yaml", sample.Set("worker", worker))
	n.WriteSet("master.yaml", sample.Set("master", master))
	pools := []string{"--set=pools=custom,worker"}
	healthy(t, n, pools...)
	wantPinned(t, n, custom, worker)
	collect(t, n)
	healthy(t, n, pools...)
	wantPinned(t, n, custom, worker)
}

func TestO3StandardPool(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	worker, custom := push(t, registry, "app/b", 2000), push(t, registry, "app/c", 3000)
	n.WriteSet("worker.yaml", sample.Set("worker", worker))
	n.WriteSet("custom.yaml", sample.Set("custom", custom))
	healthy(t, n, "--set=pools=worker")
	wantPinned(t, n, worker)
}

func TestO4O5InvalidSetDegradesStandardAndCustomPool(t *testing.T) {
	t.Parallel()
	for _, pool := range []string{"worker", "custom"} {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			n, registry, _ := boot(t)
			bad := registry.Host + "/app/no-such@sha256:" + strings.Repeat("0", 64)
			n.WriteSet("bad.yaml", sample.Set(pool, bad))
			degraded(t, n, pool+"-sample", "not found", "--set=pools="+pool)
			n.WriteSet("bad.yaml", []byte("kind: PinnedImageSet\n"))
			degraded(t, n, "bad.yaml", "bad.yaml:1: ", "--set=pools="+pool)
		})
	}
}

// O of a disconnected site: an image that is on the node is pinned without a registry.
func TestImagesOnTheNodeNeedNoRegistry(t *testing.T) {
	t.Parallel()
	n, registry, access := boot(t)
	pin := push(t, registry, "app/a", 1000)
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: pin}}); err != nil {
		t.Fatal(err)
	}
	access.Take()
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	healthy(t, n)
	wantPinned(t, n, pin)
}

// On a node that the Machine Config Operator manages, nothing is written and nothing is pulled.
func TestManagedNodeIsOnlyReported(t *testing.T) {
	t.Parallel()
	n, registry, access := boot(t)
	pin := push(t, registry, "app/a", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	current := filepath.Join(n.Root, "etc/machine-config-daemon/currentconfig")
	if err := os.MkdirAll(filepath.Dir(current), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(current, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	access.Take()
	before := fixtures.Tree(t, n.Root)
	result := n.Do("firstboot")
	if s := readStatus(n); s.Owner != runtime.MCO || result.Code != 1 || s.Images[0].State != runtime.Missing ||
		s.Degraded() || !strings.Contains(result.Out, "waiting for the Machine Config Operator; 0 of 1") {
		t.Errorf("got %+v and the status %+v, want exit code 1 and a node that waits for the operator", result, s)
	}
	if result := n.Do("plan"); result.Code != 0 ||
		!strings.Contains(result.Out, "nothing to do: the Machine Config Operator owns") {
		t.Errorf("plan: got %+v, want that there is nothing to do", result)
	}
	after := fixtures.Tree(t, n.Root)
	for name, entry := range after {
		if before[name] != entry {
			t.Errorf("%s: got %q, want %q", name, entry, before[name])
		}
	}
	if requests := access.Take(); len(requests) > 0 || len(after) != len(before) {
		t.Errorf("got the requests %v and %d files, want none and %d", requests, len(after), len(before))
	}
	// The operator has pulled it, and pins it.
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: pin}}); err != nil {
		t.Fatal(err)
	}
	writeDropin(t, n, "50-pinned-images", rendered(t, []string{pin}))
	n.Reload()
	eventually(t, "the operator has pinned it", func() bool { return n.Do("firstboot").Code == 0 })
}

// When a node joins a cluster while `run` runs, pinbox-node leaves its pins to the operator.
func TestNodeBecomesManaged(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	_, stop := start(t, n, "run", "--set=interval=200ms")
	eventually(t, "the set is pinned", func() bool { return currentStatus(n).Healthy() })
	if err := os.MkdirAll(filepath.Join(n.Root, "etc/machine-config-daemon"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.Root, "etc/machine-config-daemon/currentconfig"), []byte("{}"),
		0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the operator owns the pins", func() bool { return currentStatus(n).Owner == runtime.MCO })
	n.WriteSet("s.yaml", sample.SetNamed("s", b))
	eventually(t, "the status is pending", func() bool { return currentStatus(n).Pending() })
	if n.Dropin() != rendered(t, []string{a}) {
		t.Errorf("got the drop-in\n%s\nwant %s", n.Dropin(), a)
	}
	stop()
}
