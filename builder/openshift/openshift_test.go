package openshift_test

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// config returns the configuration of a node that has everything that one can have.
func config(t *testing.T, cluster spec.OpenShift) ignition.Config {
	t.Helper()
	a := spec.New(source.Entry{Source: &source.Images{"quay.io/site/app:1"}})
	a.Spec.OpenShift, a.Spec.Node.AutoAttach = &cluster, true
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	c := a.Spec.Config([]pinset.Set{{Name: "site-images-worker"}}, []byte("# mirrors\n"))
	c.Release = pinset.ReleaseID{Name: "factory-12", Number: 7}
	c.PullSecret = []byte("{}")
	c.Store.Tree = verity.Tree{Root: digest.SHA256.FromString("root"), Blocks: 90_000}
	c.Store.Digest, c.Store.Program.Digest = digest.FromString("store"), digest.FromString("pinbox-node")
	return c
}

func manifests(t *testing.T, cluster spec.OpenShift) map[string][]byte {
	t.Helper()
	files, err := openshift.Manifests(cluster, config(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// clusters are those of the golden files, and the API that each has.
var clusters = map[string]struct {
	spec.OpenShift
	api fixtures.Cluster
}{
	"4.18": {spec.OpenShift{Version: "4.18"}, fixtures.OpenShift418},
	"4.20": {spec.OpenShift{Version: "4.20", Podman: true}, fixtures.OpenShift},
	"5.0":  {spec.OpenShift{Version: "5.0", Podman: true}, fixtures.OpenShift},
}

func TestManifestsGolden(t *testing.T) {
	for name, cluster := range clusters {
		cluster.Pools = []string{"worker"} // objects of the others differ in the name
		for file, content := range manifests(t, cluster.OpenShift) {
			fixtures.Golden(t, "openshift-"+name+"-"+path.Base(file), content)
		}
	}
}

// The API of a cluster accepts the objects, and its own types have all fields.
func TestManifestsAreObjectsOfTheCluster(t *testing.T) {
	for name, cluster := range clusters {
		t.Run(name, func(t *testing.T) {
			files := manifests(t, cluster.OpenShift)
			all := bytes.Join(slices.Collect(maps.Values(files)), []byte("---\n"))
			if refused := cluster.api.Check(t, all); refused != "" {
				t.Errorf("got %s, want no error", refused)
			}
			for file, content := range files {
				var object any = &mcfgv1.MachineConfig{}
				switch {
				case bytes.Contains(content, []byte("kind: ContainerRuntimeConfig")):
					object = &mcfgv1.ContainerRuntimeConfig{}
				case bytes.Contains(content, []byte("kind: MachineConfiguration\n")):
					object = &operatorv1.MachineConfiguration{}
				}
				if err := yaml.UnmarshalStrict(content, object); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}

// parsed returns the Ignition config of a MachineConfig, in the version that OpenShift 4.14 to 4.18 read.
func parsed(t *testing.T, content []byte) (paths, units []string) {
	t.Helper()
	var object mcfgv1.MachineConfig
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatal(err)
	}
	config, findings, err := ign.Parse(object.Spec.Config.Raw)
	if err != nil || len(findings.Entries) > 0 {
		t.Fatalf("%v, %v", err, findings)
	}
	if n := len(config.Storage.Directories) + len(config.Storage.Links) + len(config.Passwd.Users) +
		len(config.Ignition.Config.Merge); n > 0 || config.Ignition.Version != "3.4.0" {
		t.Errorf("got Ignition %s with %d directories, links, users and merged configs, want 3.4.0 with none",
			config.Ignition.Version, n)
	}
	for _, f := range config.Storage.Files {
		paths = append(paths, f.Path)
	}
	for _, u := range config.Systemd.Units {
		units = append(units, u.Name)
		if strings.Contains(u.Name, "@") {
			t.Errorf("got the unit %s, want none with an @", u.Name)
		}
	}
	return paths, units
}

// A MachineConfig holds nothing that the operator or pinbox-node writes, and nothing that objects of the cluster's own
// are for.
func TestMachineConfigHoldsWhatStays(t *testing.T) {
	files := manifests(t, spec.OpenShift{Version: "4.20"})
	paths, units := parsed(t, files["nodes/99-worker-pinbox.yaml"])
	wantPaths := []string{
		"/etc/crio/crio.conf.d/50-pinbox-stores", "/etc/pinbox/node.json", "/etc/pinbox/store.env", "/etc/pinbox/boot",
		"/etc/udev/rules.d/70-pinbox.rules", "/etc/tmpfiles.d/pinbox.conf",
		"/etc/systemd/system/pinbox-attach@.service",
	}
	wantUnits := []string{
		"pinbox-.service", "pinbox-program.service", "pinbox-store.service", "var-lib-pinbox-stores-0.mount",
		`dev-disk-by\x2dpartlabel-pinbox\x2dstore.device`, "crio.service", "pinbox-mount.service", "pinbox-firstboot.service",
		"pinbox-node.service",
	}
	if diff := cmp.Diff(wantPaths, paths) + cmp.Diff(wantUnits, units); diff != "" {
		t.Errorf("MachineConfig (-want +got):\n%s", diff)
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, []string{
		"nodes/99-master-pinbox.yaml", "nodes/99-worker-pinbox.yaml", "nodes/node-disruption-policy.yaml",
	}) {
		t.Errorf("got %v", got)
	}
}

// The policy names each file and unit of the MachineConfigs, so that no change of one reboots a node, and CRI-O starts
// again where it has to.
func TestNothingReboots(t *testing.T) {
	files := manifests(t, spec.OpenShift{Version: "4.20", Podman: true})
	var policy operatorv1.MachineConfiguration
	if err := yaml.Unmarshal(files["nodes/node-disruption-policy.yaml"], &policy); err != nil {
		t.Fatal(err)
	}
	actions := map[string]string{}
	describe := func(name string, all []operatorv1.NodeDisruptionPolicySpecAction) {
		for _, a := range all {
			actions[name] += string(a.Type)
			if a.Restart != nil {
				actions[name] += " " + string(a.Restart.ServiceName)
			}
			actions[name] += " "
		}
	}
	for _, f := range policy.Spec.NodeDisruptionPolicy.Files {
		describe(f.Path, f.Actions)
	}
	for _, u := range policy.Spec.NodeDisruptionPolicy.Units {
		describe(string(u.Name), u.Actions)
	}
	for name, content := range files {
		if !strings.Contains(name, "99-") {
			continue
		}
		paths, units := parsed(t, content)
		for _, name := range append(paths, units...) {
			if a := actions[name]; a == "" || strings.Contains(a, "Reboot") || strings.Contains(a, "Drain") {
				t.Errorf("%s: got the actions %q, want some that do not reboot", name, a)
			}
		}
	}
	starts := 0
	for name, a := range actions {
		if strings.Contains(a, "Restart crio.service") && name != "/etc/containers/storage.conf" {
			starts++
		}
	}
	if starts > 2 {
		t.Errorf("got %d restarts of CRI-O for one MachineConfig, want 2 at most", starts)
	}
	for _, name := range []string{"crio.service", "/etc/crio/crio.conf.d/50-pinbox-stores", "/etc/containers/storage.conf"} {
		if actions[name] != "DaemonReload Restart crio.service " {
			t.Errorf("%s: got %q, want that CRI-O starts again", name, actions[name])
		}
	}
}

// Two spellings of a store make CRI-O list its images twice, so one file lists the stores.
func TestStoresAreListedOnce(t *testing.T) {
	for version, listed := range map[string]bool{"4.20": true, "4.22": true, "4.23": false, "5.0": false} {
		content := manifests(t, spec.OpenShift{Version: version, Podman: true})["nodes/99-worker-pinbox.yaml"]
		var object mcfgv1.MachineConfig
		if err := yaml.Unmarshal(content, &object); err != nil {
			t.Fatal(err)
		}
		files, err := ignition.Files(object.Spec.Config.Raw)
		if err != nil {
			t.Fatal(err)
		}
		dropin := string(files["/etc/crio/crio.conf.d/50-pinbox-stores"])
		if strings.Contains(dropin, "imagestore=/") != listed || !strings.Contains(dropin, "internal_repair = false") {
			t.Errorf("%s: got\n%s\nwant the stores listed: %v", version, dropin, listed)
		}
	}
}

func TestPools(t *testing.T) {
	for name, test := range map[string]struct {
		pools []string
		want  []string
	}{
		"default":             {nil, []string{"nodes/99-master-pinbox.yaml", "nodes/99-worker-pinbox.yaml"}},
		"custom like workers": {[]string{"worker", "infra"}, []string{"nodes/99-worker-pinbox.yaml"}},
		"custom alone":        {[]string{"infra"}, []string{"nodes/99-infra-pinbox.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slices.Sorted(maps.Keys(manifests(t, spec.OpenShift{Version: "4.16", Pools: test.pools})))
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// podman sees the stores by an object of each pool, whose kind depends on the version.
func TestPodmanSeesTheStores(t *testing.T) {
	for version, kind := range map[string]string{"4.20": "kind: MachineConfig\n", "5.0": "kind: ContainerRuntimeConfig\n"} {
		for _, podman := range []bool{false, true} {
			files := manifests(t, spec.OpenShift{Version: version, Podman: podman})
			for _, pool := range []string{"master", "worker"} {
				content := files["podman/99-"+pool+"-pinbox-podman.yaml"]
				if got := bytes.Contains(content, []byte(kind)); got != podman {
					t.Errorf("%s: got\n%s\nwant %q for %s: %v", version, content, kind, pool, podman)
				}
			}
		}
	}
}

// Nodes with keys mount no store of which they cannot verify each block.
func TestKeysRequireVerity(t *testing.T) {
	cluster := spec.OpenShift{Version: "4.20"}
	for snippet, want := range map[string]string{"": "VERITY=auto\n", layout.KeysDir + "/site.pub": "VERITY=require\n"} {
		c := config(t, cluster)
		c.Snippets = []ignition.Snippet{{Name: "keys.bu", Content: []byte(snippet)}}
		files, err := openshift.Manifests(cluster, c)
		if err != nil {
			t.Fatal(err)
		}
		var object mcfgv1.MachineConfig
		if err := yaml.Unmarshal(files["nodes/99-worker-pinbox.yaml"], &object); err != nil {
			t.Fatal(err)
		}
		contents, err := ignition.Files(object.Spec.Config.Raw)
		if err != nil || !bytes.Contains(contents[layout.StoreEnvPath], []byte(want)) {
			t.Errorf("with %q: got %v, and in store.env\n%s\nwant %q", snippet, err, contents[layout.StoreEnvPath], want)
		}
	}
}
