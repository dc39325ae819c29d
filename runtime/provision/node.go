package provision

import (
	"errors"
	"path"
	"slices"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// RegistriesPath is the drop-in of registries.conf. It overrides registries.conf and earlier
// drop-ins: containers-registries.conf.d(5).
const RegistriesPath = "/etc/containers/registries.conf.d/50-pinbox-mirrors.conf"

// UdevRulesPath sorts after 60-persistent-storage.rules, which finds file systems. The rules name a unit: SYSTEMD_WANTS
// starts it when a device becomes active (systemd.device(5)), and a drive that was empty at boot is active already,
// since 60-cdrom_id.rules makes it inactive only when a medium is removed. The kernel reports that a medium has changed
// (block/disk-events.c).
const UdevRulesPath = "/etc/udev/rules.d/70-pinbox.rules"

// DefaultProgram is where pinbox-node is on a node.
const DefaultProgram = "/usr/local/bin/pinbox-node"

// PackagedProgram is where a package of the distribution has it.
const PackagedProgram = "/usr/bin/pinbox-node"

// Node is a node with pinbox.
type Node struct {
	// Release of the appliance.
	Release pinset.ReleaseID
	// Sets that the node pins.
	Sets []pinset.Set
	// Store that the node mounts.
	Store Store
	// Registries is a drop-in of registries.conf; nil for none.
	Registries []byte
	// PullSecret is a file of credentials for the node; nil for none. It is never in the
	// store.
	PullSecret []byte
	// InternalRepair leaves CRI-O's repair on.
	InternalRepair bool
	// ImageVolumes is what the node does about images of image volumes.
	ImageVolumes layout.ImageVolumes
	// Service are the settings of passes, and Set others of layout.NodeConfig, as its Set takes them.
	Service layout.Service
	Set     []string
	// KeepPrevious is how many previous releases stay on the node for a rollback.
	KeepPrevious int
	// AutoAttach attaches a medium with a later store as soon as it is plugged in.
	AutoAttach bool
	// Keys is whether the node has keys, and so trusts no store that nobody signed. It trusts its own store by
	// the root of the hash tree.
	Keys bool
	// Pins is who pins images on a node of OpenShift; "" on any other.
	Pins layout.Pins
	// OthersList is whether somebody else lists the stores for CRI-O, so that its drop-in does not.
	OthersList bool
	// ImageStore is the path of a store that came with the image of the system, and that the node attaches when it
	// boots; "" for none.
	ImageStore string
	// StoreFiles are files that the node copies from its store instead of having them from the start.
	StoreFiles []File
	// Program is the path of a pinbox-node that the units do not install; "" means DefaultProgram, which they install
	// from the store.
	Program string
}

// Parts are what the file system of a node must hold.
type Parts struct {
	// Directories must exist when CRI-O and the units of pinbox start, with the mode 0755.
	Directories []string
	Files       []File
	Units       []Unit
}

// File is a file.
type File struct {
	Path string
	// Mode has the bits of chmod(1).
	Mode uint32
	// User and Group are names or numbers.
	User, Group string
	Content     []byte
	// About says what the file is for, where its content cannot; "" for none.
	About string
	// Changes is whether pinbox-node, or somebody by its documentation, replaces the file later. All other
	// files stay as they are.
	Changes bool
}

// Unit is a unit of systemd, or drop-ins for the unit of somebody else: then Content is "".
type Unit struct {
	Name    string
	Enabled bool
	Content string
	Dropins []Dropin
}

// Dropin is a file NAME in the folder UNIT.d.
type Dropin struct{ Name, Content string }

// Validate returns an error if a node could not use the configuration. It reports all errors at once, and
// does not check the sets.
func (n Node) Validate() error {
	return errors.Join(n.Store.validate(), n.config().Validate())
}

// Parts returns what the node must hold: equal nodes, equal bytes.
func (n Node) Parts() (Parts, error) {
	r := n.rendering()
	files := append(n.Kept(), r.boot()...)
	units := r.node()
	if n.AutoAttach {
		files = append(files, text(UdevRulesPath, []byte(r.render("udev.rules"))))
	}
	return Parts{Directories: n.directories(), Files: files, Units: units}, r.err
}

// Names returns the paths and the names of units and drop-ins that nobody else may have on the node.
func (n Node) Names() []string {
	names := []string{
		UnitName(crio.Slots()[0]), UnitName(layout.MediumMount), filesUnit, crioDropin, StoreUnit, layout.BootPath,
		layout.StoreEnvPath,
		TmpfilesPath, sandboxDropin, filesDropin, volumesDropin, strictDropin, programUnit, mountUnit, firstbootUnit,
		nodeUnit, attachUnit, fetchUnit, volumesUnit, imageUnit, UdevRulesPath,
	}
	for _, f := range n.files() {
		names = append(names, f.Path)
	}
	return append(names, n.directories()...)
}

// Kept returns the files that are not left for the store, without those that come from templates: the size of these
// does not depend on what the node pins.
func (n Node) Kept() []File {
	return slices.DeleteFunc(n.files(), func(f File) bool { return n.InStore(f.Path) })
}

// InStore reports whether the store has the file.
func (n Node) InStore(path string) bool {
	return slices.ContainsFunc(n.StoreFiles, func(f File) bool { return f.Path == path })
}

// config is the configuration of pinbox-node.
func (n Node) config() layout.NodeConfig {
	own := n.Store.Digest
	if n.Store.Folder != "" { // it is not mounted
		own = ""
	}
	program := n.Store.Program
	if n.Program != "" { // somebody else installs it, and replaces it
		program = pinset.Program{}
	}
	c := layout.NodeConfig{
		ReleaseID: n.Release, Store: own, KeepPrevious: n.KeepPrevious, SELinuxContext: n.Store.SELinuxContext,
		Verity: n.Store.Verity, Pins: n.Pins, ImageVolumes: n.ImageVolumes,
		Program: program, Service: n.Service,
	}
	for _, text := range n.Set {
		_ = c.Set(text) // the flag has checked it
	}
	return c
}

// directories are the directories that must exist when CRI-O and the units of pinbox start.
func (n Node) directories() []string {
	all := n.Store.directories()
	if len(n.Sets) == 0 && n.Store.None { // the units may write there if it exists
		all = append(all, layout.SetsDir)
	}
	return all
}

// files are all files of the node that are not made from templates.
func (n Node) files() []File {
	listed := n.Store.Additional()
	if n.OthersList {
		listed = nil
	}
	pins := text(crio.PinnedImagesPath, crio.RenderPinned(pinset.Union(n.Sets...)))
	pins.Changes = true
	pins.About = "What CRI-O pins: the images of the sets. pinbox-node writes it anew when they change."
	files := []File{pins, text(crio.StoresPath, crio.RenderStores(listed, n.InternalRepair)), configFile(n.config())}
	if n.Registries != nil {
		files = append(files, text(RegistriesPath, n.Registries))
	}
	if n.PullSecret != nil {
		secret := text(crio.PullSecretPath, n.PullSecret)
		secret.Mode = 0o600
		files = append(files, secret, text(crio.CredentialsPath, crio.RenderCredentials()))
	}
	return append(files, n.SetFiles()...)
}

// SetFiles returns the files of the sets.
func (n Node) SetFiles() []File {
	var files []File
	for _, s := range n.Sets {
		f := text(path.Join(layout.SetsDir, pinset.FileName(s.Name)), s.Render())
		f.Changes = true
		files = append(files, f)
	}
	return files
}

func configFile(c layout.NodeConfig) File {
	f := text(layout.NodeConfigPath, c.Render())
	f.About = "What this node is, and the settings for later stores: docs/format.md."
	return f
}

func text(path string, content []byte) File {
	return File{Path: path, Mode: 0o644, User: "root", Group: "root", Content: content}
}
