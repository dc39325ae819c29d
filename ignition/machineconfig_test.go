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
