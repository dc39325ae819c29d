package provision

import (
	"cmp"
	"embed"
	"path"
	"strings"
	"text/template"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/layout"
)

//go:embed templates
var templates embed.FS

// rendering is the input of the templates.
type rendering struct {
	What, Where, Options string
	// Mount is the name of the store's unit, "" if there is none. Service makes What of Store: a file
	// or a device. Script is what it runs, and Device is the unit that it waits for.
	Mount, Service, Store, Script, Device string
	// Label is the one of the device, which must be the only one with it; nil if there is none.
	Label *label
	// Policy, Root and Blocks are for dm-verity, VerityName is the name of its device.
	Policy, Root, VerityName string
	Blocks                   int64
	// ProgramSum is the SHA-256 of Program, "" if the units do not install it.
	ProgramSum string
	// URL of the store, with its Digest and Size, and ProgramURL of the program; "" if it is not fetched.
	// FetchedProgram is where it is until it is installed.
	URL, ProgramURL, FetchedProgram, Digest string
	Size                                    int64
	// VolumeLabel and MediumDir are of a medium with the store alone.
	VolumeLabel, MediumDir string
	// Programs is the folder with the programs of later releases.
	Programs string
	// Program and FilesDir are paths in the store, MediumLabel the volume label of a delta.
	Program, FilesDir, MediumLabel string
	// Installed is the path of the program on the node.
	Installed string
	// ImageStore is the path of a store that is attached at boot.
	ImageStore string
	StoreFiles []File
	AutoAttach bool
	// CopyVolumes is whether the node copies image volumes into CRI-O's own store, in MainStore.
	CopyVolumes bool
	MainStore   string
	Disk        string
	err         error
}

// Names of pinbox's own units.
const (
	StoreUnit     = "pinbox-store.service"
	mountUnit     = "pinbox-mount.service"
	attachUnit    = "pinbox-attach@.service"
	imageUnit     = "pinbox-image-store.service"
	firstbootUnit = "pinbox-firstboot.service"
	nodeUnit      = "pinbox-node.service"
	filesUnit     = "pinbox-files.service"
	volumesUnit   = "pinbox-volumes.service"
	checkUnit     = "pinbox-check-disk.service"
	installUnit   = "pinbox-install-store.service"
	saveUnit      = "pinbox-save-store.service"
	fetchUnit     = "pinbox-fetch-store.service"
	crioDropin    = "10-pinbox-stores.conf"
)

// label is a label of a device, in a column of lsblk(8).
type label struct{ Column, Value string }

// rendering returns the input of the templates for a node.
func (n Node) rendering() *rendering {
	s := n.Store
	if n.Keys && s.Verity != layout.VerityOff {
		s.Verity = layout.VerityRequire
	}
	r := s.rendering()
	r.StoreFiles, r.AutoAttach, r.ImageStore = n.StoreFiles, n.AutoAttach, n.ImageStore
	r.CopyVolumes, r.MainStore = n.ImageVolumes == layout.ImageVolumesCopy, MainStore
	if n.Program != "" { // somebody else installs it
		r.Installed, r.ProgramSum = n.Program, ""
	}
	return r
}

// rendering returns the input of the templates for a node with the store.
func (s Store) rendering() *rendering {
	r := &rendering{
		Installed: DefaultProgram, Program: layout.OwnProgram, FilesDir: layout.OwnFiles, MediumLabel: layout.MediumLabel,
		Programs: layout.ProgramsDir,
	}
	if s.None {
		return r
	}
	if s.Program.Digest != "" {
		r.ProgramSum = s.Program.Digest.Encoded()
	}
	if s.Folder != "" {
		r.Where = s.Folder
		return r
	}
	r.What, r.Where, r.Options = layout.StoreLink, crio.Slots()[0], s.options()
	r.Mount, r.VolumeLabel, r.MediumDir = UnitName(r.Where), s.VolumeLabel, layout.MediumMount
	r.Service, r.Store, r.Script = StoreUnit, s.NodePath(), layout.OpenStorePath
	switch {
	case s.PartitionLabel != "":
		r.Label = &label{"PARTLABEL", s.PartitionLabel}
		r.Device = `dev-disk-by\x2dpartlabel-` + strings.ReplaceAll(s.PartitionLabel, "-", `\x2d`) + ".device"
	case s.VolumeLabel != "":
		r.Label = &label{"LABEL", s.VolumeLabel}
	}
	if s.URL != "" {
		r.URL, r.Digest, r.Size = s.URL, s.Digest.String(), s.Size
		r.FetchedProgram = layout.FetchedStore + ".program"
		r.ProgramURL = s.URL[:strings.LastIndex(s.URL, "/")+1] + path.Base(layout.OwnProgram)
	}
	r.Policy, r.VerityName = string(cmp.Or(s.Verity, layout.VerityAuto)), layout.OwnVerityName
	if !s.Tree.IsZero() {
		r.Root, r.Blocks = s.Tree.Root.Encoded(), s.Tree.Blocks
	}
	return r
}

// render executes a template. The first error is kept in err.
func (r *rendering) render(name string) string {
	t, err := template.ParseFS(templates, "templates/*")
	var b strings.Builder
	if err == nil {
		err = t.ExecuteTemplate(&b, name, r)
	}
	if r.err == nil {
		r.err = err
	}
	return b.String()
}

// storeUnits returns the units that mount the store.
func (r *rendering) storeUnits() []Unit {
	units := []Unit{
		{Name: StoreUnit, Content: r.render("store.service")},
		{Name: r.Mount, Enabled: true, Content: r.render("store.mount")},
	}
	if r.URL != "" {
		units = append(units, Unit{Name: fetchUnit, Content: r.render("fetch-store.service")})
	}
	return units
}

// openStore returns the script that opens the store; none if nothing is mounted.
func (r *rendering) openStore() []File {
	if r.Mount == "" {
		return nil
	}
	return []File{text(layout.OpenStorePath, []byte(r.render("open-store")))}
}

// node returns the units of a node.
func (r *rendering) node() []Unit {
	var units []Unit
	if r.Mount != "" {
		units = r.storeUnits()
	}
	units = append(units,
		Unit{Name: "crio.service", Dropins: []Dropin{{Name: crioDropin, Content: r.render("crio.conf")}}},
		Unit{Name: mountUnit, Content: r.render("mount.service")},
		Unit{Name: firstbootUnit, Enabled: true, Content: r.render("firstboot.service")},
		Unit{Name: nodeUnit, Enabled: true, Content: r.render("node.service")})
	if r.AutoAttach {
		units = append(units, Unit{Name: attachUnit, Content: r.render("attach.service")})
	}
	if r.CopyVolumes {
		units = append(units, Unit{Name: volumesUnit, Content: r.render("volumes.service")})
	}
	if r.ImageStore != "" {
		units = append(units, Unit{Name: imageUnit, Enabled: true, Content: r.render("image-store.service")})
	}
	if r.VolumeLabel != "" {
		units = append(units, Unit{Name: UnitName(r.MediumDir), Content: r.render("medium.mount")})
	}
	if len(r.StoreFiles) > 0 {
		units = append(units, Unit{Name: filesUnit, Enabled: true, Content: r.render("files.service")})
	}
	return units
}
