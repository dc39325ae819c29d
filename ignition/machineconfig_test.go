package ignition_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A MachineConfig has at most 1.5 MiB: the operator does not render a larger one.
func TestSizeOfAMachineConfig(t *testing.T) {
	const limit = 1_572_864
	render := func(size int) ([]byte, error) {
		return ignition.MachineConfig("99-worker-pinbox", "worker", provision.Parts{Files: []provision.File{{
			Path: "/etc/pinbox/node.json", Mode: 0o644, Content: bytes.Repeat([]byte("a"), size),
		}}})
	}
	size := limit - 64<<10 // leaves room for the rest of the object
	object, err := render(size)
	if err != nil {
		t.Fatalf("with a file of %d bytes: %v", size, err)
	}
	size += limit - len(object)
	if object, err = render(size); err != nil || len(object) != limit {
		t.Errorf("got %d bytes and %v, want %d", len(object), err, limit)
	}
	_, err = render(size + 1)
	if want := fmt.Sprintf("%d bytes, and a MachineConfig at most %d", limit+1, limit); !errors.Is(err,
		ignition.ErrTooLarge) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %v with %q", err, ignition.ErrTooLarge, want)
	}
}

// object is a MachineConfig of a user.
func object(name, pool, config string) string {
	return fmt.Sprintf(`{"kind": "MachineConfig", "metadata": {"name": %q, "labels": {"machineconfiguration.openshift.io/role": %q}},
 "spec": {"config": {"ignition": {"version": "3.2.0"}, %s}}}`, name, pool, config)
}

// A user's MachineConfigs are compared with ours, at every level, and with the disk of the store.
func TestReviewOfMachineConfigs(t *testing.T) {
	img, err := pinset.ParseImage("quay.example.com/a@sha256:" + strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := configs(t)["installed"].Parts()
	if err != nil {
		t.Fatal(err)
	}
	own, err := ignition.MachineConfig("99-worker-pinbox", "worker", parts.Managed())
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string][]byte{"99-worker-pinbox.yaml": own, "policy.yaml": []byte("kind: MachineConfiguration\n")}
	system := ignition.System{
		Disk: "/dev/sda", Partition: "pinbox-store", Operator: true, Images: []pinset.Image{img},
	}
	pause := asFiles(map[string]string{"/etc/crio/crio.conf.d/10-pause": "[crio.image]\npinned_images = [\"pause:1\"]\n"})
	last := strings.Replace(pause, "10-pause", "99-pause", 1)
	stores := asFiles(map[string]string{"/etc/crio/crio.conf.d/50-pinbox-stores": "[crio]\n"})
	disks := func(partition string) string {
		return `"storage": {"disks": [{"device": "/dev/sda", ` + partition + `}]}`
	}
	for name, test := range map[string]struct {
		manifest string
		ours     map[string][]byte
		want     error
		text     string // of the error, or of the note; "" for neither
	}{
		"file of pinbox": {object("a", "worker", stores), ours, ignition.ErrConflict, "MachineConfig a: "},
		"of a later document": {
			object("a", "worker", `"storage": {}`) + "\n---\n" + object("b", "worker", stores), ours, ignition.ErrConflict,
			"MachineConfig b: ",
		},
		"of a pool of a user's own": {object("a", "edge", stores), ours, ignition.ErrConflict, "50-pinbox-stores: it has a file"},
		"of other nodes":            {object("a", "master", stores), map[string][]byte{"x": own}, ignition.ErrConflict, "50-pinbox-stores"},
		"merged": {
			strings.Replace(object("a", "worker", `"storage": {}`), `"3.2.0"`,
				`"3.2.0", "config": {"merge": [{"source": "`+inner(stores)+`"}]}`, 1), ours, ignition.ErrConflict, "50-pinbox-stores",
		},
		"link above": {
			object("a", "worker", `"storage": {"links": [{"path": "/var/lib/pinbox", "target": "/srv"}]}`), ours,
			ignition.ErrConflict, "/var/lib/pinbox: it has a link",
		},
		"unit as a file": {
			object("a", "worker", asFiles(map[string]string{"/etc/systemd/system/pinbox-node.service": ""})), ours,
			ignition.ErrConflict, "pinbox-node.service",
		},
		"masked": {
			object("a", "worker", `"systemd": {"units": [{"name": "pinbox-node.service", "mask": true}]}`), ours,
			ignition.ErrConflict, "masking of unit pinbox-node.service",
		},
		"list of the operator": {
			object("a", "worker", asFiles(map[string]string{"/etc/crio/crio.conf.d/50-pinned-images": ""})), nil,
			ignition.ErrConflict, "50-pinned-images",
		},
		"later pins":         {object("a", "worker", last), nil, ignition.ErrPins, "99-pause has pinned_images"},
		"earlier pins":       {object("a", "worker", pause), ours, nil, "MachineConfig a: /etc/crio/crio.conf.d/10-pause has pinned_images"},
		"/var":               {object("a", "worker", disks(`"partitions": [{"number": 5, "label": "var"}]`)), ours, nil, ""},
		"the store's number": {object("a", "master", disks(`"partitions": [{"number": 128}]`)), nil, ignition.ErrDisk, "partition 128"},
		"wiped":              {object("a", "worker", disks(`"wipeTable": true`)), nil, ignition.ErrDisk, "wipe_table"},
		"an earlier one of ours": {
			object("99-worker-pinbox", "worker", stores), ours, nil, "",
		},
		"one that the operator makes of ours": {
			strings.Replace(object("rendered-worker-1", "worker", stores), `"labels"`,
				`"annotations": {"machineconfiguration.openshift.io/generated-by-controller-version": "1"}, "labels"`, 1),
			ours, nil, "",
		},
		"ours of another build": {string(own), nil, nil, ""},
		"arguments only":        {"kind: MachineConfig\nspec: {kernelArguments: [quiet]}\n", ours, nil, ""},
		"Ignition 2": {
			strings.Replace(object("a", "worker", `"storage": {}`), "3.2.0", "2.2.0", 1), ours, nil, "version 2.2.0",
		},
		"not YAML": {"{", ours, nil, "m.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			config := `{"ignition": {"version": "3.2.0"}, ` + asFiles(map[string]string{
				"/etc/assisted/extra-manifests/m.yaml": test.manifest, "/etc/assisted/manifests/infraenv.yaml": "kind: InfraEnv\n",
			}) + `}`
			theirs, err := ignition.ExtraManifests([]byte(config))
			if err != nil {
				t.Fatal(err)
			}
			notes, err := ignition.ReviewCluster(theirs, test.ours, configs(t)["installed"].Names(), system)
			said := strings.Join(notes, "\n")
			if err != nil {
				said = err.Error()
			}
			if !errors.Is(err, test.want) || !strings.Contains(said, test.text) || (test.text == "") != (said == "") {
				t.Errorf("got %v and the notes %q, want %v with %q", err, notes, test.want, test.text)
			}
		})
	}
}

// systemd-analyze accepts the units that the real Ignition writes of a MachineConfig, with both drop-ins of CRI-O.
func TestUnitsOfAMachineConfig(t *testing.T) {
	fixtures.NeedRoot(t)
	parts, err := configs(t)["installed"].Parts()
	if err != nil {
		t.Fatal(err)
	}
	object, err := ignition.MachineConfig("99-worker-pinbox", "worker", parts.Managed())
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Spec struct{ Config json.RawMessage }
	}
	file, root := filepath.Join(t.TempDir(), "config.ign"), t.TempDir()
	if err := yaml.Unmarshal(object, &config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, config.Spec.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	prepare(t, root)
	crio.Ignite(t, file, root)
	dropins, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/crio.service.d/*"))
	if err != nil || len(dropins) != 2 {
		t.Errorf("got the drop-ins %v, %v, want two", dropins, err)
	}
	verify := []string{"verify", "--root=" + root, "--man=no", "--recursive-errors=yes", "--generators=no", "crio.service"}
	units, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/*.service"))
	if err != nil || len(units) == 0 {
		t.Fatalf("got the units %v, %v, want some", units, err)
	}
	for _, unit := range units {
		verify = append(verify, strings.Replace(filepath.Base(unit), "@.", "@sr0.", 1))
	}
	if out, err := exec.Command(fixtures.Need(t, "systemd-analyze"), verify...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("got %v from systemd-analyze verify, want no error and no output\n%s", err, out)
	}
}
