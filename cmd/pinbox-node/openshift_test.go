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
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
	runtimecrio "github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/layout"
)

// machineConfig makes a node from the MachineConfig of the workers, as the operator does: Ignition writes its files,
// and systemd its directories.
func machineConfig(t *testing.T, o builder.Options, cluster spec.OpenShift) *crio.Node {
	t.Helper()
	o.Appliance.Spec.OpenShift = &cluster
	o.Appliance.Spec.Node.Store.Path = filepath.Join(o.Out, layout.StoreFile)
	appliance.Build(t, o)
	return scaled(t, o)
}

// scaled makes one more node from the MachineConfig of an appliance.
func scaled(t *testing.T, o builder.Options) *crio.Node {
	t.Helper()
	n := crio.New(t, ignitionOf(t, o, "nodes/99-worker-pinbox.yaml"))
	fixtures.Run(t, "systemd-tmpfiles", "--create", "--root", n.Root, filepath.Join(n.Root, "etc/tmpfiles.d/pinbox.conf"))
	n.MountUnit("var-lib-pinbox-stores-0.mount")
	return n
}

// ignitionOf returns a file with the Ignition config of a MachineConfig.
func ignitionOf(t *testing.T, o builder.Options, manifest string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(o.Out, artifact.ManifestsDir, manifest))
	var object struct {
		Spec struct {
			Config json.RawMessage `json:"config"`
		} `json:"spec"`
	}
	if err == nil {
		err = yaml.Unmarshal(content, &object)
	}
	config := filepath.Join(t.TempDir(), "config.ign")
	if err == nil {
		err = os.WriteFile(config, object.Spec.Config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// manages writes what the operator's daemon knows of the node.
func (o operator) manages(pool, release string) {
	o.t.Helper()
	current := filepath.Join(o.n.Root, "etc/machine-config-daemon/currentconfig")
	content := fmt.Sprintf(`{"kind":"MachineConfig","metadata":{"name":"rendered-%s-%032x","annotations":{%q:%q}},"spec":{}}`,
		pool, 1, "machineconfiguration.openshift.io/release-image-version", release)
	if err := os.MkdirAll(filepath.Dir(current), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(current, []byte(content), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

// operator is the daemon of the Machine Config Operator on a node.
type operator struct {
	t *testing.T
	n *crio.Node
}

// pins writes the drop-in of the operator.
func (o operator) pins(images ...string) {
	o.t.Helper()
	writeDropin(o.t, o.n, "50-pinned-images", rendered(o.t, images))
	o.n.Reload()
	eventually(o.t, "CRI-O has the pins", func() bool {
		pinned, _ := pinnedByCRIO(o.t, o.n)
		for _, image := range images {
			if !slices.Contains(pinned, image) {
				return false
			}
		}
		return true
	})
}

// machineConfigFiles returns the files of a node that its MachineConfig holds.
func machineConfigFiles(t *testing.T, n *crio.Node) map[string]string {
	t.Helper()
	held := map[string]string{}
	for name, entry := range fixtures.Tree(t, filepath.Join(n.Root, "etc")) {
		directory := strings.HasPrefix(entry, "mode 40")
		if !directory && !strings.Contains(name, "sets.d") && !strings.Contains(name, "50-pinned-images") &&
			!strings.Contains(name, "machine-config-daemon") {
			held[name] = entry
		}
	}
	return held
}

// On a node that the operator manages, stores are mounted and attached and nothing is pinned; pinbox-node writes no
// file that a MachineConfig holds, which would degrade the node.
func TestNodeOfAMachineConfig(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Docker))
	next := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Mixed))
	next.From = []string{o.Out}
	n := machineConfig(t, o, spec.OpenShift{Version: "4.20"})
	if _, err := builder.Delta(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	held := machineConfigFiles(t, n)
	n.Start()
	mco := operator{t, n}
	if r := n.Do("firstboot"); readStatus(n).Owner != runtime.MCO {
		t.Errorf("got %+v on the first boot, want that the operator pins", r)
	}
	mco.manages("worker", "4.20.1")
	mco.pins(pins.Pause, pins.Docker)
	healthy(t, n)
	if r := n.Do("attach", filepath.Join(next.Out, layout.DeltaStoreFile)); r.Code != 0 || !strings.Contains(r.Out, "waiting for the Machine Config Operator") {
		t.Errorf("attach: got %+v, want that it waits for the operator", r)
	}
	if got := n.Dropin(); got != rendered(t, []string{pins.Pause, pins.Docker}) {
		t.Errorf("got the drop-in %s, want that of the operator", got)
	}
	mco.pins(pins.Pause, pins.Mixed)
	healthy(t, n)
	mco.pins(pins.Pause, pins.Docker)
	checkRun(t, n, 0, "rollback")
	n.Stop(syscall.SIGTERM)
	checkRun(t, n, 0, "mount")
	n.Start()
	healthy(t, n)
	checkRun(t, n, 0, "detach 1")
	after := machineConfigFiles(t, n)
	for name, entry := range held {
		if after[name] != entry {
			t.Errorf("%s: got %q, want it unchanged: %q", name, after[name], entry)
		}
		delete(after, name)
	}
	for name := range after {
		t.Errorf("got the new file /etc/%s, want none", name)
	}
}

// In 4.18 without a feature in preview, the operator neither writes nor removes pins: pinbox-node pins, with the sets
// of the store, until the node has an OpenShift whose operator does.
func TestNobodyElsePins(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := appliance.Options(t, append(append(sample.Set("worker", pins.Docker), "---\n"...), sample.Set("master", pins.Mixed)...))
	n := machineConfig(t, o, spec.OpenShift{Version: "4.18"})
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	mco := operator{t, n}
	mco.manages("worker", "4.18.3")
	s := healthy(t, n)
	wantPinned(t, n, pins.Docker, pins.Mixed) // the set of the workers, and what else the mounted store has
	if len(s.Pools) != 1 || s.Pools[0] != "worker" || len(s.Images) != 1 || s.Images[0].Name != pins.Docker {
		t.Errorf("got the pools %v and %+v, want worker and %s", s.Pools, s.Images, pins.Docker)
	}
	n.Run("umount", "/var/lib/pinbox/stores/0")
	if r := n.Do("firstboot"); r.Code == 0 || !strings.Contains(r.Out+r.Err, "no sets, and no store of the appliance") {
		t.Errorf("got %+v without the store, want an error", r)
	}
	if got := n.Dropin(); got != rendered(t, []string{pins.Docker, pins.Mixed}) {
		t.Errorf("got the drop-in %s, want it unchanged", got)
	}
	n.MountUnit("var-lib-pinbox-stores-0.mount")
	mco.manages("worker", "4.19.0")
	if n.Do("firstboot"); readStatus(n).Owner != runtime.MCO {
		t.Errorf("got the owner %s after the update, want the operator", readStatus(n).Owner)
	}
}

// E7, Polarion 81925: pods run from pinned images while nothing can be pulled, also after the node has restarted. With
// a kubelet, which restarts as well: TestPodsRunFromAStore.
func TestE7PodsWithoutARegistry(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	n := appliance.Boot(t, appliance.Options(t, sample.Set("worker", pins.Pause, pins.Docker)), pins.Pause)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.Start()
		healthy(t, n)
		wantPinned(t, n, pins.Pause, pins.Docker)
		for range 5 { // replicas
			id, _ := n.RunContainer(pins.Docker)
			n.State(id, criapi.ContainerState_CONTAINER_EXITED)
		}
		n.Stop(syscall.SIGTERM)
	}
}

// E10, Polarion 80334: a pool of a user's own. Its nodes also have the sets of the workers, and not those of others.
func TestE10CustomPool(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	sets := append(append(sample.Set("infra", pins.Docker), "---\n"...), sample.Set("worker", pins.Pause)...)
	sets = append(append(sets, "---\n"...), sample.Set("master", pins.Mixed)...)
	n := machineConfig(t, appliance.Options(t, sets), spec.OpenShift{Version: "4.20", Pools: []string{"worker", "infra"}})
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	mco := operator{t, n}
	mco.manages("infra", "4.20.1")
	n.WriteSet("sets.yaml", sets)
	if r := n.Do("firstboot"); r.Code != 1 || !strings.Contains(r.Out, "waiting for the Machine Config Operator; 0 of 2") {
		t.Errorf("got %+v, want that two images are not pinned", r)
	}
	mco.pins(pins.Docker, pins.Pause)
	healthy(t, n)
	mco.pins(pins.Pause) // the set lists one image less
	n.WriteSet("sets.yaml", sample.Set("worker", pins.Pause))
	healthy(t, n)
	mco.manages("worker", "4.20.1")
	if s := healthy(t, n); len(s.Pools) != 1 || s.Pools[0] != "worker" {
		t.Errorf("got the pools %v of a node that moved, want worker", s.Pools)
	}
}

// Polarion 73636: a node that is added later has the pinned images, and here without a pull.
func TestPolarion73636ScaledNodes(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Docker))
	first := machineConfig(t, o, spec.OpenShift{Version: "4.20"})
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*crio.Node{first, scaled(t, o)} {
		n.Start()
		mco := operator{t, n}
		mco.manages("worker", "4.20.1")
		mco.pins(pins.Pause, pins.Docker)
		healthy(t, n)
	}
}

// Polarion 81831: the conditions of a MachineConfigNode while a set has an image that does not exist, and after.
func TestPolarion81831Degraded(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	bad := registry.Host + "/openshiftfake/fakeimage@sha256:" + strings.Repeat("0", 64)
	n.WriteSet("bad.yaml", sample.SetNamed("bad", bad))
	degraded(t, n, "bad", bad)
	n.RemoveSet("bad.yaml")
	mayHaveNoSets(t, n)
	for _, c := range healthy(t, n).Conditions {
		if c.Status != "False" {
			t.Errorf("got %+v without the set, want neither progressing nor degraded", c)
		}
	}
}

// E8, Polarion 81956: all images of a release are pinned, the operating system as well. Polarion 85529: the operator
// updates nodes from that, if podman and rpm-ostree find it, by its digest.
func TestE8AndPolarion85529Release(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	release, err := registry.PushRelease(t.Context(), "4.20.4", 8)
	if err != nil {
		t.Fatal(err)
	}
	o := appliance.Options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Release{Image: release.Tag}}}
	n := machineConfig(t, o, spec.OpenShift{Version: "4.20", Podman: true})
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	mco := operator{t, n}
	mco.manages("worker", "4.20.1")
	images := []string{release.Pin}
	for _, pin := range release.Components {
		images = append(images, pin)
	}
	slices.Sort(images)
	images = slices.Compact(images)
	mco.pins(images...)
	healthy(t, n)
	wantPinned(t, n, images...)
	crio.Ignite(t, ignitionOf(t, o, "podman/99-worker-pinbox-podman.yaml"), n.Root)
	system := release.Components["rhel-coreos"]
	got := n.Run("env", "CONTAINERS_STORAGE_CONF="+filepath.Join(n.Root, "etc/containers/storage.conf"),
		"skopeo", "inspect", "--format", "{{.Name}}@{{.Digest}}", "containers-storage:"+system)
	if strings.TrimSpace(got) != system {
		t.Errorf("got %q, want %s", got, system)
	}
}

// With a ContainerRuntimeConfig, the operator's storage.conf is the only list of the stores. CRI-O lists each image
// once, and a later store is attached; before the operator has written the list, it is not.
func TestStoresOfAContainerRuntimeConfig(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Docker))
	next := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Mixed))
	next.From = []string{o.Out}
	n := machineConfig(t, o, spec.OpenShift{Version: "5.0", Podman: true})
	if _, err := builder.Delta(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	mco := operator{t, n}
	mco.manages("worker", "5.0.1")
	n.Start()
	delta := filepath.Join(next.Out, layout.DeltaStoreFile)
	if r := n.Do("attach", delta); r.Code == 0 || !strings.Contains(r.Err, "not configured to read stores") {
		t.Errorf("got %+v without the list, want an error", r)
	}
	n.Stop(syscall.SIGTERM)
	mco.stores()
	n.Start()
	mco.pins(pins.Pause, pins.Docker)
	healthy(t, n)
	list, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, img := range list.Images {
		listed[img.Id]++
		if listed[img.Id] > 1 {
			t.Errorf("got %v twice, want each image once", img.RepoDigests)
		}
	}
	if r := n.Do("attach", delta); r.Code != 0 || !strings.Contains(r.Out, "waiting for the Machine Config Operator") {
		t.Errorf("attach: got %+v, want that it waits for the operator", r)
	}
}

// stores adds what the operator makes of a ContainerRuntimeConfig to the storage.conf of CRI-O, and of the node.
func (o operator) stores() {
	o.t.Helper()
	list := "[storage.options]\nadditionalimagestores = ["
	for _, slot := range runtimecrio.Slots() {
		list += fmt.Sprintf("%q, ", slot)
	}
	content, err := os.ReadFile(o.n.Path("storage.conf"))
	etc := filepath.Join(o.n.Root, runtimecrio.StorageConf)
	for _, name := range []string{o.n.Path("storage.conf"), etc} {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(name), 0o755)
		}
		if err == nil {
			err = os.WriteFile(name, []byte(string(content)+list+"]\n"), 0o644)
		}
	}
	if err != nil {
		o.t.Fatal(err)
	}
}
