package node

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/layout"
)

// DefaultCRIODir is the folder of CRI-O's configuration.
const DefaultCRIODir = "/etc/crio"

// Options say where things are on a node, and how it is looked after. The zero value is a
// node that pinbox has built.
type Options struct {
	// Options of a pass. Owner "" or "auto" finds out whether the Machine Config Operator
	// manages the node; Node "" is the host's name; Limits.GCPercent 0 is the kubelet's.
	runtime.Options
	Hooks runtime.Hooks
	// Socket of CRI-O, and CRIODir the folder of its configuration.
	Socket, CRIODir string
	// Sets is the folder of the sets.
	Sets string
	// Status is the file of the status. The lock of who makes passes is beside it.
	Status string
	// State is the folder of the read-only stores, and of what is kept between passes.
	State string
	// Staging is the folder where CRI-O keeps blobs until they are unpacked; "" is the one
	// that CRI-O is configured with.
	Staging string
	// RegistriesConf and RegistriesDir replace those below /etc/containers.
	RegistriesConf, RegistriesDir string
	// Reload is how CRI-O is told to reload: by "systemd", by a "signal", or by a command; ""
	// or "auto" is by systemd where that runs, else by a signal.
	Reload string
	// CRIOLog is the file of CRI-O's log; "" means the journal.
	CRIOLog string
	// Waiting is told once what is waited for: ErrBusy, or stores.ErrNoBase. nil is fine.
	Waiting func(error)

	// readOnly is for verbs that only look: they take the pools of the last pass, if no others
	// are given, and write nothing.
	readOnly bool
}

// complete fills in what was left out.
func (o Options) complete() Options {
	o.Socket = cmp.Or(o.Socket, cri.DefaultSocket)
	o.CRIODir = cmp.Or(o.CRIODir, DefaultCRIODir)
	o.Sets = cmp.Or(o.Sets, layout.SetsDir)
	o.Status = cmp.Or(o.Status, layout.StatusPath)
	o.State = cmp.Or(o.State, layout.NodeDir)
	o.Reload = cmp.Or(o.Reload, "auto")
	if o.Node == "" {
		o.Node, _ = os.Hostname() // a name is for messages alone
		o.Node = cmp.Or(o.Node, "this node")
	}
	if o.Waiting == nil {
		o.Waiting = func(error) {}
	}
	return o
}

// owner says who writes the pins.
func (o Options) owner() (runtime.Owner, error) {
	switch o.Owner {
	case "", "auto":
		// It is there on a node that the Machine Config Operator manages.
		current := filepath.Join(filepath.Dir(filepath.Clean(o.CRIODir)), "machine-config-daemon", "currentconfig")
		if _, err := os.Stat(current); err == nil {
			return runtime.MCO, nil
		}
		return runtime.Pinbox, nil
	case runtime.Pinbox, runtime.MCO:
		return o.Owner, nil
	}
	return "", fmt.Errorf("%w: owner %s: it is pinbox, mco or auto", runtime.ErrOptions, o.Owner)
}

// stateDir is the folder of the state as the kernel names it in its table of mounts.
func (o Options) stateDir() string {
	if path, err := filepath.EvalSymlinks(o.State); err == nil {
		return path
	}
	return o.State // it is not there yet
}

// fits says why there is no room for a file of so many bytes in the folder of the state.
func (o Options) fits(bytes int64) error {
	space, err := disk.Measure(o.State)
	if err != nil {
		return err
	}
	return o.Limits.CheckFile(space, bytes)
}
