package root

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.podman.io/storage/pkg/reexec"
	"go.podman.io/storage/pkg/unshare"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/environment"
)

// Init must be the first call of main, and the only one of Init. The library starts this program
// again to unpack layers in a chroot, and Examine starts it again to mount stores. In such a child,
// Init does the work and returns true; main then returns.
func Init() bool {
	reexec.Register(examiner, examineMain)
	return reexec.Init()
}

// ErrNotPermitted reports that this process may not write a graph root.
var ErrNotPermitted = errors.New("writing a store as a folder takes root: its files have many owners, and it has " +
	"devices and trusted attributes")

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

// CheckPrivileges checks that this process may write a graph root: that it is root, of this machine
// or of a user namespace, and may mount.
func CheckPrivileges() error {
	able, err := unshare.HasCapSysAdmin()
	switch {
	case os.Geteuid() != 0:
		return fmt.Errorf("%w; this is the user with the ID %d", ErrNotPermitted, os.Geteuid())
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("capabilities: %w", environment.ErrNoProc)
	case err != nil:
		return err
	case !able:
		return fmt.Errorf("%w; this root lacks CAP_SYS_ADMIN", ErrNotPermitted)
	}
	return nil
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

// mountEscapes decodes the escapes of mountinfo in proc(5).
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Unmount unmounts all mounts at dir and below in this mount namespace.
func Unmount(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("mounts in %s: %w", dir, environment.ErrNoProc)
	}
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			if point := mountEscapes.Replace(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	var errs []error
	for _, point := range slices.Backward(points) { // the last mount first
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
