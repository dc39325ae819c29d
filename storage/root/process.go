package root

import (
	"fmt"
	"os"

	"go.podman.io/storage/pkg/reexec"
	"go.podman.io/storage/pkg/unshare"

	"github.com/pinbox/pinbox/storage/fault"
)

// Init must be the first call of main, and the only one of Init. The library starts this program
// again to unpack layers in a chroot, and Examine starts it again to mount stores. In such a child,
// Init does the work and returns true; main then returns.
func Init() bool {
	reexec.Register(examiner, examineMain)
	return reexec.Init()
}

// ErrNotPermitted reports that this process may not write a graph root.
var ErrNotPermitted = fault.New(fault.Usage,
	"writing a store as a folder takes root: its files have many owners, and it has devices and trusted attributes",
	"run it as root")

// setVariable sets an environment variable until restore is called.
func setVariable(name, value string) (restore func(), err error) {
	old, ok := os.LookupEnv(name)
	if err := os.Setenv(name, value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return func() {
		if ok {
			_ = os.Setenv(name, old) // it was set before
		} else {
			_ = os.Unsetenv(name) // Setenv has accepted the name
		}
	}, nil
}

// UserNamespaceWarning returns the limitations of a graph root that is written in a user namespace;
// "" outside of one.
func UserNamespaceWarning() string {
	if !unshare.IsRootless() {
		return ""
	}
	return "the store was written in a user namespace: only containers of the same namespace can use it. Its owners are " +
		"shifted, its devices are left out, and deleted directories are marked for unprivileged overlay mounts; a CRI-O " +
		"that runs as root needs a store that root has written"
}
