package main

import (
	"encoding/json"
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
	"github.com/pinbox/pinbox/storage/layout"
)

// restart starts CRI-O with other arguments.
func restart(n *crio.Node, args ...string) {
	n.Stop(syscall.SIGTERM)
	n.Start(args...)
}

// A node of an appliance whose CRI-O, by its command line, its files or the signature policy, does not use the store as
// planned: each pass and the status say so, and how to cure it.
func TestCRIODoesNotUseTheStore(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	pin := push(t, registry, "app/a", 50_000)
	n := appliance.Boot(t, appliance.Options(t, sample.Set("worker", pin)), "")
	stores := n.Etc("crio.conf.d/50-pinbox-stores")
	content, err := os.ReadFile(stores)
	if err != nil {
		t.Fatal(err)
	}
	wantErrors := func(what string, want ...string) {
		t.Helper()
		s := degraded(t, n, "", "")
		status := n.Do("status")
		for _, text := range want {
			if !strings.Contains(strings.Join(s.Errors, "\n"), text) || !strings.Contains(status.Out, text) {
				t.Errorf("%s: got the errors %q and the status\n%s\nwant %q", what, s.Errors, status.Out, text)
			}
		}
	}
	n.Start()
	healthy(t, n)

	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, []byte(`{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"`+
		strings.Split(pin, "/")[0]+`": [{"type": "reject"}]}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	restart(n, "--signature-policy", policy)
	wantErrors("policy", policy+" has reject for 1 images without a signature, such as "+pin)

	restart(n)
	healthy(t, n)
	if err := os.Remove(stores); err != nil {
		t.Fatal(err)
	}
	wantErrors("drop-in removed", "CRI-O runs without the stores once it starts again", "write "+"/etc/crio/crio.conf.d/50-pinbox-stores")

	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	restart(n)
	wantErrors("started without the drop-in", "CRI-O runs without the stores: no file of ", "stores/0")
	if plan := n.Do("plan"); !strings.Contains(plan.Out+plan.Err, "CRI-O runs without the stores") {
		t.Errorf("got the plan %q, want the reason", plan.Out+plan.Err)
	}

	if err := os.WriteFile(stores, content, 0o644); err != nil {
		t.Fatal(err)
	}
	wantErrors("not restarted", "restart CRI-O")

	restart(n, "--storage-opt", "overlay.mountopt=nodev")
	wantErrors("storage option", "has --storage-opt overlay.mountopt=nodev, which replaces the storage_option of all files")

	// Nobody reads storage.conf.d, nor this file, before containers/storage 1.64: a CRI-O that does fails here, since the
	// store is not there, and pinbox-node must read them then.
	override := filepath.Join(t.TempDir(), "storage.conf")
	content = []byte("[storage.options]\nadditionalimagestores = [\"/no/such/store\"]\n")
	if err := os.WriteFile(override, content, 0o644); err != nil {
		t.Fatal(err)
	}
	n.Env = append(n.Env, "CONTAINERS_STORAGE_CONF_OVERRIDE="+override)
	restart(n)
	healthy(t, n)
}

// Files of an administrator that sort before the drop-in have pins: they go on to count, also if they are changed, and
// pinbox-node does not take them for pins of its own.
func TestPinsOfEarlierFiles(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b, theirs := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000), push(t, registry, "site/x", 3000)
	site := func(pins string) {
		t.Helper()
		writeDropin(t, n, "20-site.conf", "[crio.image]\npinned_images = ["+pins+"]\n")
	}
	site(`"` + theirs + `"`)
	if _, err := n.Images().PullImage(t.Context(), &criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: theirs}}); err != nil {
		t.Fatal(err)
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
	healthy(t, n)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	healthy(t, n, "--set=prune=true")
	wantPinned(t, n, a, theirs)
	if !strings.Contains(n.Dropin(), `# The last 1 are the pins of "/etc/crio/crio.conf.d/20-site.conf", which this file replaces.`) {
		t.Errorf("got the drop-in\n%s\nwant the file with the pins of others", n.Dropin())
	}
	if _, all := pinnedByCRIO(t, n); len(all) != 2 {
		t.Errorf("got the images %v, want that of the set and the site's", all)
	}
	site(`"*site*"`)
	healthy(t, n)
	wantPinned(t, n, a, theirs)
	site("")
	healthy(t, n, "--set=prune=true")
	fixtures.Until(t, func() error { // a pass has told CRI-O, and does not wait until the pins of others are gone
		if pinned, _ := pinnedByCRIO(t, n); !slices.Equal(pinned, []string{a}) {
			return fmt.Errorf("got %v pinned by CRI-O, want %s", pinned, a)
		}
		return nil
	})
	if _, all := pinnedByCRIO(t, n); len(all) != 2 {
		t.Errorf("got the images %v, want those of the site left alone", all)
	}
}

// Podman has containers in the store that it shares with CRI-O, which lists none of them: prune spares their images.
func TestPruneSparesContainersOfPodman(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
	healthy(t, n)
	n.Stop(syscall.SIGTERM)
	root := layout.Open(os.DirFS(n.Path("root")))
	var record []byte // of "podman create"
	if err := root.Images(func(i layout.Image) (err error) {
		if slices.Contains(i.Names, b) {
			record, err = json.Marshal([]map[string]any{{
				"id": strings.Repeat("c1", 32), "names": []string{"tool"}, "image": i.ID, "layer": i.TopLayer,
				"created": "2026-01-02T03:04:05.6Z", "flags": map[string]any{},
			}})
		}
		return err
	}); err != nil || record == nil {
		t.Fatalf("got no record of %s, %v", b, err)
	}
	if err := os.WriteFile(n.Path("root/"+layout.ContainersFile), record, 0o600); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	s := healthy(t, n, "--set=prune=true")
	if _, all := pinnedByCRIO(t, n); len(all) != 2 || len(s.Unpinned) != 1 {
		t.Errorf("got the images %v and %v unpinned, want the one of the container unpinned and there", all, s.Unpinned)
	}
}

// CRI-O needs an image for each pod, by the name in its configuration: the status says if it is not there.
func TestPauseImageIsNotThere(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a := push(t, registry, "app/a", 1000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	s := healthy(t, n)
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "registry.k8s.io/pause:") {
		t.Errorf("got the warnings %q, want one of the pause image", s.Warnings)
	}
	if status := n.Do("status"); status.Code != 0 || !strings.Contains(status.Out, "warning: the image registry.k8s.io/pause:") {
		t.Errorf("got %+v, want the warning", status)
	}
	writeDropin(t, n, "10-pause", "[crio.image]\npause_image = \""+a+"\"\n")
	restart(n)
	if s := healthy(t, n); len(s.Warnings) > 0 {
		t.Errorf("got the warnings %q, want none", s.Warnings)
	}
}
