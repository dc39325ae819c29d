package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"go.podman.io/storage/pkg/unshare"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// ErrNoTemp says that the folder for temporary files cannot be used.
var ErrNoTemp = errors.New("$TMPDIR, or else /tmp, takes no files")

// ErrNoProc says that /proc lacks what this process needs of it.
var ErrNoProc = errors.New("/proc is not mounted")

// noHome is the home folder of a user who has none. It does not exist: Debian Policy
// 9.2.3.
const noHome = "/nonexistent"

// Home is the folder with the user's own files: $HOME, else the one in passwd(5),
// else a folder that does not exist.
func Home() string {
	home, err := unshare.HomeDir()
	if err != nil || home == "" {
		return noHome
	}
	// Of /dev/null, which some services have, the library would say that it is no folder.
	if fi, err := os.Stat(home); err == nil && !fi.IsDir() {
		return noHome
	}
	return home
}

// Prepare changes this process's variables to what the libraries can work with, and
// returns warnings for the user. It may be called again.
//
// Without a home folder containers/image fails to look for policy.json, registries.conf,
// registries.d and certs.d of the host, and takes a .docker/config.json of the current
// folder for the user's. Of an $XDG_RUNTIME_DIR that does not exist it complains at every
// request.
func Prepare() (warnings []string, err error) {
	err = os.Setenv("HOME", Home())
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if _, missing := os.Stat(dir); errors.Is(missing, os.ErrNotExist) {
			warnings = append(warnings,
				fmt.Sprintf("XDG_RUNTIME_DIR: %s does not exist: credentials of `podman login` are not found there", dir))
			err = errors.Join(err, os.Unsetenv("XDG_RUNTIME_DIR"))
		}
	}
	return warnings, err
}

// DescriptorPath is a path to an open file, for a library that opens files by name:
// proc(5), /proc/self/fd.
func DescriptorPath(f *os.File) (string, error) {
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoProc, err)
	}
	return name, nil
}

// TempDir is os.MkdirTemp in the folder for temporary files.
func TempDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	return dir, explainTemp(err)
}

// TempFile is a file without a name in dir, or for "" in the folder for temporary files.
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
