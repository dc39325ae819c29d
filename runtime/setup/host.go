package setup

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/fault"
)

// Reasons why a machine cannot be set up.
var (
	// ErrNoCRIO means that the machine has no CRI-O that pinbox can use.
	ErrNoCRIO = fault.New(fault.Input, "no CRI-O that pinbox can use",
		"install CRI-O 1.31 or newer, and correct its configuration; --root names the folder of an image")
	// ErrManaged means that the Machine Config Operator writes the files of the node.
	ErrManaged = fault.New(fault.Input, "the Machine Config Operator manages this node",
		"give the cluster the MachineConfigs and PinnedImageSets of `pinbox build`, in the folder manifests")
	// ErrReadOnly means that the machine has no place for pinbox-node there.
	ErrReadOnly = fault.New(fault.Input, "the folder is read-only",
		"--program names another path for pinbox-node; in an image, that is /usr/bin/pinbox-node")
)

// Files of a node that the Machine Config Operator manages, or will when it has booted: pkg/daemon/constants in
// the operator, and the templates of its units.
var managed = []string{
	"/etc/machine-config-daemon", "/etc/mco", "/etc/ignition-machine-config-encapsulated.json",
	"/etc/systemd/system/machine-config-daemon-firstboot.service",
	"/etc/systemd/system/machine-config-daemon-pull.service",
}

// unmanaged returns ErrManaged if the files of the machine are somebody else's.
func (h host) unmanaged() error {
	for _, name := range managed {
		if h.exists(name) {
			return fmt.Errorf("%w: it has %s", ErrManaged, name)
		}
	}
	return nil
}

// findCRIO finds CRI-O, its version unless it is given, and what it runs with. The error says why pinbox cannot use it;
// notes are for people. The version is "" if nothing tells it.
func (h host) findCRIO(
	ctx context.Context, version string,
) (found crio.Effective, is string, notes []string, err error) {
	service, err := crio.FindService(h, h.read)
	switch {
	case err != nil:
		return found, "", nil, err
	case service.Program == "":
		return found, "", nil, fmt.Errorf("%w: no %s with an ExecStart= in %s", ErrNoCRIO, crio.Unit,
			strings.Join(crio.UnitDirs(), ", "))
	case !h.exists(service.Program):
		return found, "", nil, fmt.Errorf("%w: %s names %s, which does not exist", ErrNoCRIO, crio.Unit, service.Program)
	}
	etc, _ := fs.Sub(h, "etc/crio") // the name is valid
	if found, err = crio.ReadEffective(etc, h.read); err != nil {
		return found, "", nil, fmt.Errorf("%w: %w", ErrNoCRIO, err) // tests ask for both
	}
	found.Service = service
	if problems := found.Unsuitable(); len(problems) > 0 {
		return found, "", nil, fmt.Errorf("%w: %s", ErrNoCRIO, strings.Join(problems, "; "))
	}
	if version == "" {
		if h.live {
			version, err = crio.ProgramVersion(ctx, service.Program)
		} else {
			version, err = crio.InstalledVersion(h.openFile, service.Program)
		}
		if err != nil {
			return found, "", []string{fmt.Sprintf("the version of %s is unknown: %v; pinbox-node needs CRI-O 1.31 or "+
				"newer: --crio-version says which it is", service.Program, err)}, nil
		}
	}
	return found, version, nil, runtime.Supported("cri-o", version)
}

// selinux reports whether SELinux is on, or will be in an image.
func (h host) selinux() bool {
	if h.live {
		_, err := os.Stat("/sys/fs/selinux/enforce")
		return err == nil
	}
	config, err := h.read("/etc/selinux/config")
	return err == nil && len(config) > 0 && !strings.Contains("\n"+string(config), "\nSELINUX=disabled")
}
