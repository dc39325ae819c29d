package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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

// Folders of systemd's units, the first of which counts: systemd.unit(5).
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system", "/lib/systemd/system"}

// crioUnit is the unit of CRI-O in its packages, of Debian, Fedora and upstream.
const crioUnit = "crio.service"

// crioVersionTime is how long CRI-O may take to say its version: it needs milliseconds.
const crioVersionTime = 30 * time.Second

// foundCRIO is the CRI-O of a machine.
type foundCRIO struct {
	Program string
	// Version is "" if the program cannot be run here.
	Version string
	Config  crio.Config
}

// findCRIO finds CRI-O, its version unless it is given, and its configuration. The error says why pinbox cannot use it.
func (h host) findCRIO(ctx context.Context, version string) (found foundCRIO, notes []string, err error) {
	service, err := h.service()
	if err != nil {
		return found, nil, err
	}
	if found.Program = service.Program; found.Program == "" {
		return found, nil, fmt.Errorf("%w: no %s in %s", ErrNoCRIO, crioUnit, strings.Join(unitDirs, ", "))
	}
	if !h.exists(found.Program) {
		return found, nil, fmt.Errorf("%w: %s names %s, which does not exist", ErrNoCRIO, crioUnit, found.Program)
	}
	if found.Config, err = h.readConfig(); err != nil {
		return found, nil, fmt.Errorf("%w: %w", ErrNoCRIO, err)
	}
	var storage []crio.Source
	for _, name := range []string{crio.StorageConf, crio.VendorStorageConf} {
		content, err := h.read(name)
		if err != nil {
			return found, nil, err
		}
		storage = append(storage, crio.Source{Name: name, Content: content})
	}
	if problems := service.Unsuitable(found.Config, storage); len(problems) > 0 {
		return found, nil, fmt.Errorf("%w: %s", ErrNoCRIO, strings.Join(problems, "; "))
	}
	if version == "" {
		version, err = h.versionOf(ctx, found.Program)
	}
	if err != nil {
		notes = append(notes, fmt.Sprintf("the version of %s is unknown: %v; pinbox-node needs CRI-O 1.31 or newer: "+
			"--crio-version says which it is", found.Program, err))
	} else if err := runtime.Supported("cri-o", version); err != nil {
		return found, nil, err
	}
	found.Version = version
	return found, notes, nil
}

// readConfig reads the configuration of CRI-O.
func (h host) readConfig() (crio.Config, error) {
	return crio.ReadConfig(below{h, path.Dir(path.Dir(crio.StoresPath))})
}

// below is a folder of the machine as an fs.FS.
type below struct {
	host host
	dir  string
}

func (b below) Open(name string) (fs.File, error) {
	return b.host.open(path.Join(b.dir, name), unix.O_RDONLY|unix.O_NONBLOCK)
}

func (b below) Stat(name string) (fs.FileInfo, error) {
	f, err := b.host.open(path.Join(b.dir, name), unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// service finds out how systemd starts CRI-O.
func (h host) service() (crio.Service, error) {
	var files []crio.Source
	for _, dir := range unitDirs {
		name := path.Join(dir, crioUnit)
		content, err := h.read(name)
		if err != nil {
			return crio.Service{}, err
		}
		if len(content) > 0 {
			files = append(files, crio.Source{Name: name, Content: content})
			break
		}
	}
	dropins := map[string]crio.Source{} // by name: that of the first folder counts
	for _, dir := range unitDirs {
		folder, err := h.folder(path.Join(dir, crioUnit+".d"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return crio.Service{}, err
		}
		names, _ := fs.Glob(folder.FS(), "*.conf") // the pattern is valid
		_ = folder.Close()
		for _, name := range names {
			full := path.Join(dir, crioUnit+".d", name)
			content, err := h.read(full)
			if err != nil {
				return crio.Service{}, err
			}
			if _, ok := dropins[name]; !ok {
				dropins[name] = crio.Source{Name: full, Content: content}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dropins)) {
		files = append(files, dropins[name])
	}
	return crio.ReadService(files, h.read)
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
