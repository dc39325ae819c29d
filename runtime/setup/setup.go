package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
)

// Errors of options and of the machine.
var (
	ErrOptions = fault.New(fault.Usage, "the options do not go together",
		"`pinbox-node setup --help` shows the flags")
	// ErrRoot means that there is no image at Root.
	ErrRoot = fault.New(fault.Input, "--root is not a folder", "name the folder of the image, with its etc and usr")
	// ErrNotRunning means that systemd does not run, which starts the units.
	ErrNotRunning = fault.New(fault.Input, "systemd does not run here",
		"with --root, setup writes into an image")
	// ErrBusy means that another process sets the machine up.
	ErrBusy = fault.New(fault.Busy, "another setup runs",
		"wait until it has ended")
)

// Options of a setup. The zero value is for this machine.
type Options struct {
	// Root is the folder of an image of an operating system; "" is this machine, which runs.
	Root string
	// Program is the path of pinbox-node on the machine; "" means provision.PackagedProgram if that runs, else
	// provision.DefaultProgram. Self is the file that it is a copy of.
	Program, Self string
	// ImageStore is the path, in the image, of a store that the node attaches when it boots; "" for none.
	ImageStore string
	// AutoAttach attaches a medium with a later store as soon as it is plugged in.
	AutoAttach bool
	// CopyVolumes makes passes copy the images of image volumes into CRI-O's own store.
	CopyVolumes bool
	// Podman makes podman see the stores.
	Podman bool
	// CRIOVersion is the version of CRI-O; "" finds it out.
	CRIOVersion string
	// Socket of CRI-O.
	Socket string
	// Set has settings of the node "NAME=VALUE": layout.NodeConfig has their names.
	Set []string
	// Wait is how long CRI-O may take to answer after its restart.
	Wait time.Duration
}

// Result is what a setup has found and done.
type Result struct {
	// CRIO is the version of CRI-O; "" if it is unknown.
	CRIO string `json:"crio,omitempty"`
	// Detach are the stores that an undo would detach.
	Detach []string `json:"detach,omitempty"`
	// Changes in the order in which they are made.
	Changes []Change `json:"changes"`
	// Restart is whether CRI-O was restarted, or will be.
	Restart bool `json:"restart"`
	// Notes are for people: what setup could not do, and what is left to do.
	Notes []string `json:"notes,omitempty"`
}

// Pending reports whether anything is to be done.
func (r Result) Pending() bool {
	return r.Restart || slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Action != Keep })
}

// Setup makes a node of one machine.
type Setup struct {
	Options
	host host
}

// New checks the options, and what the machine is.
func New(o Options) (s Setup, err error) {
	if o.Program == "" && o.Self == provision.PackagedProgram && (o.Root == "" || o.Root == "/") {
		o.Program = o.Self
	}
	o.Program = cmp.Or(o.Program, provision.DefaultProgram)
	s = Setup{Options: o, host: host{root: "/", live: o.Root == ""}}
	if !s.host.live {
		if s.host.root, err = imageRoot(o.Root); err != nil {
			return s, err
		}
	}
	for _, name := range []string{o.Program, o.ImageStore} {
		if name != "" && !provision.ValidPath(name) {
			return s, fmt.Errorf("%w: %q must start with / and have letters, digits and ._-/ only", ErrOptions, name)
		}
	}
	if s.CRIOVersion, err = parseVersion(o.CRIOVersion); err != nil {
		return s, err
	}
	if o.ImageStore != "" {
		found, err := s.host.open(o.ImageStore, unix.O_PATH)
		if err != nil {
			return s, fmt.Errorf("%w: the image has no %s", ErrOptions, o.ImageStore)
		}
		_ = found.Close() // nothing was written to it
		if err := s.host.checkImageStore(o.ImageStore); err != nil {
			return s, err
		}
	}
	if !s.host.live && strings.HasPrefix(o.Program, "/usr/local/") {
		// ostree makes it a link to /var, which is no part of an image; bootc's base images have a read-only one.
		if target, err := look(s.host, "/usr/local", (*os.Root).Readlink); err == nil {
			return s, fmt.Errorf("%w: /usr/local of the image is a link to %s, which is no part of it; "+
				"give --program /usr/bin/pinbox-node", ErrOptions, target)
		}
	}
	if s.host.live && !systemd.Running() {
		return s, ErrNotRunning
	}
	return s, nil
}

// imageRoot returns the absolute path of an image's folder, without links.
func imageRoot(name string) (string, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return "", fault.Wrap(ErrRoot, err)
	}
	if !fi.IsDir() {
		return "", fmt.Errorf("%w: %s", ErrRoot, name)
	}
	root, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(root)
}

// crioVersion is a version of CRI-O that says whether pinbox can use it.
var crioVersion = regexp.MustCompile(`^v?(\d+\.\d+(\.\d+)?([-+~.].+)?)$`)

// parseVersion returns the version of CRI-O in an option, without a leading v; "" if it is not given.
func parseVersion(text string) (string, error) {
	found := crioVersion.FindStringSubmatch(text)
	if found == nil && text != "" {
		return "", fault.New(fault.Usage, fmt.Sprintf("--crio-version %q is not a version", text),
			"give the major and the minor number, such as 1.34 or 1.34.1")
	}
	if found == nil {
		return "", nil
	}
	return found[1], nil
}

// Check returns what Run would do, and changes nothing.
func (s Setup) Check(ctx context.Context) (Result, error) {
	p, err := s.plan(ctx)
	return p.result, err
}

// plan finds out what is to be done.
func (s Setup) plan(ctx context.Context) (p plan, err error) {
	p.host = s.host
	if err := s.host.unmanaged(); err != nil {
		return p, err
	}
	found, version, unsure, err := s.host.findCRIO(ctx, s.CRIOVersion)
	if err != nil {
		return p, err
	}
	old, err := s.host.readManifest()
	if err != nil {
		return p, err
	}
	wanted, notes, err := s.wanted(found, old)
	if err != nil {
		return p, err
	}
	p.result.CRIO = version
	p.result.Notes = append(unsure, notes...)
	env, _ := s.host.read(layout.NodeEnvPath) // systemd reads it
	if warning := layout.OldFlags(env); warning != "" {
		p.result.Notes = append(p.result.Notes, warning)
	}
	if err := p.compare(wanted, old); err != nil || !s.host.live {
		return p, err
	}
	storesChange := func(c Change) bool { return c.Path == crio.StoresPath && c.Action != Keep }
	switch p.manifest.Due = old.Due; {
	case slices.ContainsFunc(p.result.Changes, storesChange):
		p.manifest.Due = dueRestart
	case len(p.files) > 0 && old.Due == dueNothing:
		p.manifest.Due = dueUnits
	}
	p.result.Restart = p.manifest.Due == dueRestart
	return p, nil
}

// wanted is what the machine must hold, in the order in which it is written.
func (s Setup) wanted(found crio.Effective, old Manifest) (p provision.Plain, notes []string, err error) {
	n := provision.Node{
		Store: provision.Store{None: true}, Program: s.Program, AutoAttach: s.AutoAttach, ImageStore: s.ImageStore,
		KeepPrevious: layout.DefaultKeepPrevious, Set: s.Set,
	}
	if s.CopyVolumes {
		n.ImageVolumes = layout.ImageVolumesCopy
	}
	if s.host.selinux() {
		n.Store.SELinuxContext = provision.DefaultSELinuxContext
	}
	if n.Sets, notes, err = s.host.microShift(found); err != nil {
		return p, nil, err
	}
	var files []provision.File
	if s.Podman {
		var more []string
		if files, n.OthersList, more, err = s.host.podman(old); err != nil {
			return p, nil, err
		}
		notes = append(notes, more...)
	}
	if len(n.Sets) > 0 {
		files = append(files, greenboot(s.Program))
	}
	program, err := os.ReadFile(s.Self)
	if err != nil {
		return p, nil, err
	}
	parts, err := n.Parts()
	if err != nil {
		return p, nil, err
	}
	p = parts.Plain()
	files = append(files, provision.File{Path: s.Program, Mode: 0o755, Content: program})
	p.Files = append(files, p.Files...)
	if !s.host.live { // /var is no part of an image: systemd-tmpfiles makes its folders
		p.Directories = slices.DeleteFunc(p.Directories, func(dir string) bool {
			return strings.HasPrefix(dir, "/var/")
		})
	}
	return p, notes, nil
}

// ending is how long another setup may take to end. One that was killed holds the lock until the disk has what it was
// writing.
const ending = 5 * time.Second

// lock keeps other processes from setting up the machine.
func (s Setup) lock(ctx context.Context) (unlock func(), err error) {
	etc, err := os.Open(filepath.Join(s.host.root, "etc"))
	if err != nil {
		return nil, err
	}
	if err := filelock.Wait(ctx, etc, filelock.Options{Wait: ending}); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = ErrBusy
		}
		return nil, errors.Join(err, etc.Close())
	}
	return func() { _ = etc.Close() }, nil
}

// Run makes a node of the machine. What a killed process has begun, it completes.
func (s Setup) Run(ctx context.Context) (Result, error) {
	p, err := s.plan(ctx)
	if err != nil || !p.result.Pending() && p.manifest.Due == dueNothing {
		return p.result, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return p.result, err
	}
	defer unlock()
	if p, err = s.plan(ctx); err != nil { // another process may have changed something
		return p.result, err
	}
	if err := p.apply(); err != nil {
		return p.result, err
	}
	if s.host.live {
		note, err := s.activate(ctx, p.manifest.Due)
		if err != nil {
			return p.result, err
		}
		p.result.Notes = append(p.result.Notes, note...)
	}
	return p.result, s.host.writeManifest(p.manifest.completed())
}

// apply writes the files, the manifest first.
func (p plan) apply() error {
	if err := p.host.makeDirectory(path.Dir(ManifestPath)); err != nil {
		return err
	}
	if err := p.host.writeManifest(p.manifest); err != nil {
		return err
	}
	if err := each(p.manifest.Directories, p.host.makeDirectory); err != nil {
		return err
	}
	if err := p.host.remove(p.result.Changes); err != nil {
		return err
	}
	if err := each(p.files, p.host.write); err != nil {
		return err
	}
	return each(p.manifest.Links, p.host.makeLink)
}

// nodeUnit is the service of pinbox-node.
const nodeUnit = "pinbox-node.service"

// activate makes systemd and CRI-O read the files.
func (s Setup) activate(ctx context.Context, due Due) (notes []string, err error) {
	relabel(ctx, path.Dir(ManifestPath), s.Program, provision.UnitDir, path.Dir(crio.StoresPath))
	if err := systemd.ReloadUnits(ctx); err != nil {
		return nil, err
	}
	switch {
	case due == dueRestart && !systemd.HasProcess(ctx, crio.Unit):
		notes = append(notes, "CRI-O does not run; it has the stores once it is started")
	case due == dueRestart:
		if err := systemd.Unit(crio.Unit).Restart(ctx); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, s.Wait)
		defer cancel()
		if err := crio.WaitForSlots(ctx, s.Socket); err != nil {
			return nil, err
		}
	}
	return notes, systemd.Unit(nodeUnit).Begin(ctx)
}
