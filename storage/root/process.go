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

// Init must be the first that main calls, and once: the library calls its own program
// again to unpack layers, in a root of their own, and Examine does for what it mounts. If
// Init returns true, that is done and main returns.
func Init() bool {
	reexec.Register(examiner, examineMain)
	return reexec.Init()
}

// ErrNotPermitted says that this process may not write a store.
var ErrNotPermitted = errors.New("a store that is a folder takes root: its files belong to many users, and devices " +
	"and trusted attributes are among them")

// setVariable sets an environment variable until restore is called.
func setVariable(name, value string) (restore func(), err error) {
	old, was := os.LookupEnv(name)
	if err := os.Setenv(name, value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return func() {
		if was {
			_ = os.Setenv(name, old) // it was set once
		} else {
			_ = os.Unsetenv(name) // fails on no name that could be set
		}
	}, nil
}

// CheckPrivileges says whether this process may write a store: it is root, of this machine or of
// a user namespace, and may mount.
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

// UserNamespaceWarning says what becomes of a store that is written here, if that is not a whole
// one: "" on the machine itself.
func UserNamespaceWarning() string {
	if !unshare.IsRootless() {
		return ""
	}
	return "the store was written in a user namespace: it is for containers of the same namespace alone. Its owners are " +
		"shifted, its devices are left out, and deleted directories are marked for unprivileged overlay mounts; a CRI-O " +
		"that runs as root needs one that root has written"
}

// mountEscapes are those of proc(5), mountinfo.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Unmount unmounts all that is mounted at dir and below, in this namespace.
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
	for _, point := range slices.Backward(points) { // what was mounted last first
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
