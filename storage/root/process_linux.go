package root

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.podman.io/storage/pkg/unshare"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/environment"
)

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
