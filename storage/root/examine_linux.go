package root

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	cstorage "go.podman.io/storage"
	"go.podman.io/storage/pkg/reexec"
	"go.podman.io/storage/types"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/loop"
)

// examination is the input of the examiner.
type examination struct {
	Stores  []StoreFile `json:"stores"`
	Scratch string      `json:"scratch"`
}

// CannotExamine returns the reason why Examine cannot run here; "" if it can. Examine mounts files
// in a private mount namespace. It needs root outside of user namespaces, /proc to start this
// program again, and a root folder that is a mount point, which the root folder of a chroot may not
// be.
func CannotExamine() string {
	if CheckPrivileges() != nil || UserNamespaceWarning() != "" {
		return "mounting them requires root and /proc"
	}
	var root unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, "/", 0, 0, &root)
	supported := root.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 // since Linux 5.8
	if err != nil || supported && root.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return "mounting them requires a root folder that is a mount point; the root folder of this chroot is not one"
	}
	return ""
}

// Examine checks stores with the library, all together, and returns the problems that the library
// reports. The library mounts each layer and compares it with its tar-split record and its digest,
// and each document of an image with its size. All mounts are read-only and in the mount namespace
// of a child process, so that none remains.
func Examine(ctx context.Context, stores []StoreFile) (problems []string, err error) {
	scratch, err := environment.TempDir("pinbox-examine-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	input, err := json.Marshal(examination{stores, scratch})
	if err != nil {
		return nil, err
	}
	// Pdeathsig is sent when the thread that has started the child ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := reexec.CommandContext(ctx, examiner)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errOut
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w: %s", ErrMount, err, strings.TrimSpace(errOut.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &problems); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMount, err)
	}
	return problems, nil
}

// examineMain is the main function of the examiner.
func examineMain() {
	if err := examine(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func examine(in io.Reader, out io.Writer) error {
	var e examination
	if err := json.NewDecoder(in).Decode(&e); err != nil {
		return err
	}
	// The library writes to the tmpfs, which ends with the mount namespace.
	if err := syscall.Mount("tmpfs", e.Scratch, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount at %s: %w", e.Scratch, err)
	}
	var roots []string
	for n, s := range e.Stores {
		root := filepath.Join(e.Scratch, fmt.Sprint(n))
		if err := s.mount(root); err != nil {
			return err
		}
		roots = append(roots, root)
	}
	problems, err := check(e.Scratch, roots)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(problems)
}

// mount mounts the store read-only with a loop device, which ends with the mount.
func (s StoreFile) mount(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	device, err := loop.Open(s.File, s.Offset, s.Size)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), dir, "squashfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount %s: %w", s.File, err)
	}
	return nil
}

// check mounts the graph roots as additional image stores and returns the problems that the library
// reports.
func check(scratch string, roots []string) (problems []string, err error) {
	options := types.StoreOptions{
		GraphRoot: filepath.Join(scratch, "graph"), RunRoot: filepath.Join(scratch, "run"), GraphDriverName: "overlay",
	}
	for _, root := range roots {
		options.GraphDriverOptions = append(options.GraphDriverOptions, "overlay.imagestore="+root)
	}
	library, err := getStore(options)
	if err != nil {
		return nil, fmt.Errorf("containers/storage: %w", err)
	}
	report, err := library.Check(cstorage.CheckEverything())
	if err != nil {
		return nil, fmt.Errorf("containers/storage: %w", err)
	}
	for _, kind := range []map[string][]error{report.Layers, report.ROLayers, report.Images, report.ROImages} {
		for _, id := range slices.Sorted(maps.Keys(kind)) {
			for _, err := range kind[id] {
				problems = append(problems, id+": "+err.Error())
			}
		}
	}
	_, err = library.Shutdown(true)
	return problems, err
}
