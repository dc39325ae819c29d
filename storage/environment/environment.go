package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"syscall"

	"go.podman.io/storage/pkg/unshare"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNoTemp reports that the directory for temporary files cannot be used.
var ErrNoTemp = fault.New(fault.Other, "cannot create files in $TMPDIR, or else /tmp",
	"set TMPDIR to a folder that can be written")

// ErrNoProc reports that /proc does not have the open files of this process.
var ErrNoProc = fault.New(fault.Other, "/proc is not mounted",
	"mount it with `mount -t proc proc /proc`, or run pinbox where it is mounted")

// noHome is the home directory of a user without one. It does not exist: Debian Policy 9.2.3.
const noHome = "/nonexistent"

// Home returns the user's home directory: $HOME, else the one in passwd(5), else one that does not
// exist.
func Home() string {
	home, err := unshare.HomeDir()
	if err != nil || home == "" {
		return noHome
	}
	// Some services have /dev/null, on which the library would fail with ENOTDIR.
	if fi, err := os.Stat(home); err == nil && !fi.IsDir() {
		return noHome
	}
	return home
}

// Prepare sets the environment variables that the libraries need, and returns warnings for the
// user. It may be called more than once.
//
// Without $HOME, containers/image does not find the host's policy.json, registries.conf, registries.d and certs.d,
// and reads .docker/config.json in the current directory as the user's. If $XDG_RUNTIME_DIR does not exist, it warns
// at every request. A variable of the XDG Base Directory Specification that is empty means what it means without it,
// for which the library looks for the user's policy.json in no folder. A proxy that cannot be read gets a warning.
func Prepare() (warnings []string, err error) {
	err = os.Setenv("HOME", Home())
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
		if os.Getenv(name) == "" {
			err = errors.Join(err, os.Unsetenv(name))
		}
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if _, missing := os.Stat(dir); errors.Is(missing, os.ErrNotExist) {
			warnings = append(warnings,
				fmt.Sprintf("XDG_RUNTIME_DIR: %s does not exist: credentials of `podman login` are not found there", dir))
			err = errors.Join(err, os.Unsetenv("XDG_RUNTIME_DIR"))
		}
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		// As golang.org/x/net/http/httpproxy reads it, which ignores what it cannot read. The value may have a password.
		value := os.Getenv(name)
		u, bad := url.Parse(value)
		_, withScheme := url.Parse("http://" + value)
		if (bad != nil || u.Scheme == "" || u.Host == "") && withScheme != nil {
			warnings = append(warnings,
				name+": the value is not a URL, and no proxy is used; in a user name and a password, write % as %25")
		}
	}
	return warnings, err
}

// DescriptorPath returns a path of an open file, for libraries that open files by name:
// /proc/self/fd, proc(5). The error is ErrNoProc.
func DescriptorPath(f *os.File) (string, error) {
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoProc, err)
	}
	return name, nil
}

// TempDir is os.MkdirTemp in the directory for temporary files. The error is ErrNoTemp if it is
// missing or not writable.
func TempDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	return dir, explainTemp(err)
}

// TempFile opens an unnamed file in dir, or if dir is "" in the directory for temporary files, as
// TempDir.
func TempFile(dir string) (*os.File, error) {
	if dir != "" {
		return atomicfile.Unnamed(dir)
	}
	f, err := atomicfile.Unnamed(os.TempDir())
	return f, explainTemp(err)
}

func explainTemp(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", ErrNoTemp, err)
	}
	return err
}
