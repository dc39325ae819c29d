package root

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
)

// examiner is this program when it works for Examine.
const examiner = "pinbox-examine"

// ErrMount says that stores could not be mounted or opened to look at them.
var ErrMount = errors.New("stores cannot be examined")

// StoreFile is a store that is a file, or stands in one.
type StoreFile struct {
	File string `json:"file"`
	// Offset and Size of the squashfs in the file, in bytes.
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

// examination is what the examiner is told.
type examination struct {
	Stores  []StoreFile `json:"stores"`
	Scratch string      `json:"scratch"`
}

// CannotExamine says why Examine cannot do its work here, "" if it can. It mounts files,
// in a namespace that no mount leaves: that takes root of this machine, /proc to start
// this program again, and a root folder that is a mount point, which it is in no chroot.
func CannotExamine() string {
	if CheckPrivileges() != nil || UserNamespaceWarning() != "" {
		return "to mount them takes root, and /proc"
	}
	var root unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, "/", 0, 0, &root)
	told := root.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 // Linux before 5.8 does not tell
	if err != nil || told && root.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return "to mount them takes a root folder that is a mount point, and this chroot is none"
	}
	return ""
}

// Examine has the library judge stores that stand together, and gives its complaints:
// every layer is mounted, compared with the record of its tar stream and with its
// digest, every document of an image with its size. All is mounted read-only, in a mount
// namespace of a process of its own, so that nothing stays mounted, however it ends.
func Examine(ctx context.Context, stores []StoreFile) (complaints []string, err error) {
	scratch, err := environment.TempDir("pinbox-examine-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	told, err := json.Marshal(examination{stores, scratch})
	if err != nil {
		return nil, err
	}
	// The signal at the parent's death is one at that of its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := reexec.CommandContext(ctx, examiner)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(told), &out, &errOut
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w: %s", ErrMount, err, strings.TrimSpace(errOut.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &complaints); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMount, err)
	}
	return complaints, nil
}

// examineMain is the program of the examiner.
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
	// What the library writes is forgotten with the namespace.
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
	complaints, err := judge(e.Scratch, roots)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(complaints)
}

// judge gives what the library complains of.
func judge(scratch string, roots []string) (complaints []string, err error) {
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
				complaints = append(complaints, id+": "+err.Error())
			}
		}
	}
	_, err = library.Shutdown(true)
	return complaints, err
}
