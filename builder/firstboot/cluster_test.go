package firstboot_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/pinset"
)

// MachineConfigs among the manifests that name the images come to the same cluster as those of the appliance, and are
// compared with them, wherever they stand.
func TestMachineConfigsOfSources(t *testing.T) {
	object := func(config string) string {
		return `{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": "98-site",
 "labels": {"machineconfiguration.openshift.io/role": "worker"}}, "spec": {"config": {"ignition": {"version": "3.2.0"}, ` +
			config + "}}}\n"
	}
	file := func(path, content string) string {
		return object(`"storage": {"files": [{"path": "` + path + `", "contents": {"source": "data:,` + content + `"}}]}`)
	}
	text := func(object string) string {
		quoted, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(quoted)
	}
	stores := file("/etc/crio/crio.conf.d/50-pinbox-stores", "x")
	for name, test := range map[string]struct {
		manifest string
		want     error
		says     string // of the error or of a warning
	}{
		"file of pinbox": {stores, ignition.ErrConflict, "mc.yaml:1: MachineConfig 98-site: "},
		"of a list":      {"kind: List\napiVersion: v1\nitems:\n- " + stores, ignition.ErrConflict, "50-pinbox-stores"},
		"in a ConfigMap": {
			"kind: ConfigMap\napiVersion: v1\ndata: {98-site.yaml: " + text(stores) + "}\n", ignition.ErrConflict, "50-pinbox-stores",
		},
		"second of a file": {file("/etc/site", "x") + "---\n" + stores, ignition.ErrConflict, "mc.yaml:4: "},
		"masked unit": {
			object(`"systemd": {"units": [{"name": "pinbox-node.service", "mask": true}]}`), ignition.ErrConflict, "masking of unit",
		},
		"the store's partition": {
			object(`"storage": {"filesystems": [{"device": "/dev/disk/by-partlabel/pinbox-store", "format": "xfs"}]}`),
			ignition.ErrDisk, "pinbox-store",
		},
		"later pins": {
			file("/etc/crio/crio.conf.d/99-site", "%5Bcrio.image%5D%0Apinned_images=%5B%22a%22%5D"), ignition.ErrPins, "99-site",
		},
		"earlier pins": {
			file("/etc/crio/crio.conf.d/20-site", "%5Bcrio.image%5D%0Apinned_images=%5B%22a%22%5D"), nil, "20-site has pinned_images",
		},
		"an earlier one of the appliance": {strings.Replace(stores, "98-site", "99-worker-pinbox", 1), nil, ""},
		"of other things":                 {file("/etc/site", "x"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := configureManifest(t, test.manifest, &spec.OpenShift{Version: "4.20"})
			said := strings.Join(files.Warnings(), "\n")
			if err != nil {
				said = err.Error()
			}
			if !errors.Is(err, test.want) || !strings.Contains(said, test.says) || strings.Contains(said, "98-site") != (test.says != "") {
				t.Errorf("got %v and %q, want %v with %q", err, said, test.want, test.says)
			}
		})
	}
	if _, err := configureManifest(t, stores, nil); err != nil {
		t.Errorf("got %v, want none: no operator reads the object", err)
	}
}

// configureManifest renders the configuration of an appliance whose source is a manifest beside a pod.
func configureManifest(t *testing.T, manifest string, cluster *spec.OpenShift) (firstboot.Files, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"mc.yaml": manifest, "pod.yaml": "kind: Pod\napiVersion: v1\nspec: {containers: [{image: quay.example.com/a:1}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := appliance(t, func(s *spec.Spec) {
		s.Sources = []source.Entry{{Source: &source.Manifests{Paths: []string{dir}}}}
		s.OpenShift = cluster
	})
	material, err := source.Read(t.Context(), a.Spec.Sources, source.Options{Appliance: "site", Platform: a.Spec.Platform})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = material.Close() })
	img, err := pinset.ParseImage("quay.example.com/a@sha256:" + strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	material.Sets = []pinset.Set{{Name: "infra", Images: []pinset.Image{img}}}
	return firstboot.Configure(a, nil, material, nil, pinset.Program{Digest: digest.FromString("pinbox-node")})
}
