package provision

import (
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
	// or a device. Device is the unit that it waits for, Awaited that of the device or of its medium.
	Mount, Service, Store, Device, Awaited string
	// Script is what runs before the program is there.
	Script string
	// LabelColumn of lsblk(8) has the label of the device, which must be the only one with it; "" if it has none.
	LabelColumn string
	// Verity is whether the store may be mounted by dm-verity, VerityName the name of its device.
	Verity     bool
	VerityName string
	// InstallsProgram is whether the units install the program.
	InstallsProgram bool
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
	// Env is what the script has to know of the store.
	Env layout.StoreEnv
	// Disk that the live system installs to, and DiskAccess which a unit has to it: r or rw, as in DeviceAllow=.
	Disk, DiskAccess string
	err              error
}

// Names of pinbox's own units.
const (
	StoreUnit     = "pinbox-store.service"
	programUnit   = "pinbox-program.service"
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
	deviceDropin  = "50-pinbox-store.conf"
)

// allServices is the unit whose drop-ins every service of pinbox has: systemd.unit(5), since systemd 239. Those of
// later names win.
const (
	allServices   = "pinbox-.service"
	sandboxDropin = "50-pinbox-sandbox.conf"
	volumesDropin = "60-pinbox-volumes.conf"
	filesDropin   = "60-pinbox-files.conf"
	strictDropin  = "60-pinbox-strict.conf"
)

// rendering returns the input of the templates for a node.
func (n Node) rendering() *rendering {
	r := n.Store.rendering()
	r.Env = n.Store.env(n.Keys)
	r.StoreFiles, r.AutoAttach, r.ImageStore = n.StoreFiles, n.AutoAttach, n.ImageStore
	r.CopyVolumes = n.ImageVolumes == layout.ImageVolumesCopy
	if n.Program != "" { // somebody else installs it
		r.Installed, r.InstallsProgram = n.Program, false
	}
	return r
}

// rendering returns the input of the templates for a node with the store.
func (s Store) rendering() *rendering {
	r := &rendering{
		Installed: DefaultProgram, Program: layout.OwnProgram, FilesDir: layout.OwnFiles, MediumLabel: layout.MediumLabel,
		Programs: layout.ProgramsDir, Script: layout.BootPath, MainStore: MainStore,
	}
	if s.None {
		return r
	}
	r.InstallsProgram = s.Program.Digest != ""
	if s.Folder != "" {
		r.Where = s.Folder
		return r
	}
	r.What, r.Where, r.Options = layout.StoreLink, crio.Slots()[0], s.options()
	r.Mount, r.VolumeLabel, r.MediumDir = UnitName(r.Where), s.VolumeLabel, layout.MediumMount
	r.Service, r.Store = StoreUnit, s.NodePath()
	switch {
	case s.PartitionLabel != "":
		r.LabelColumn = "PARTLABEL"
		r.Device = `dev-disk-by\x2dpartlabel-` + strings.ReplaceAll(s.PartitionLabel, "-", `\x2d`) + ".device"
		r.Awaited = r.Device
	case s.VolumeLabel != "":
		r.LabelColumn = "LABEL"
		r.Awaited = `dev-disk-by\x2dlabel-` + s.VolumeLabel + ".device"
	}
	if s.URL != "" {
		r.URL, r.Digest, r.Size = s.URL, s.Digest.String(), s.Size
		r.FetchedProgram = layout.NodeStore + ".program"
		r.ProgramURL = s.URL[:strings.LastIndex(s.URL, "/")+1] + path.Base(layout.OwnProgram)
	}
	r.Verity, r.VerityName = s.Verity != layout.VerityOff, layout.OwnVerityName
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

// services returns the sandbox of all services, and the one that installs the program.
func (r *rendering) services() []Unit {
	units := []Unit{{Name: allServices, Dropins: []Dropin{{sandboxDropin, r.render("sandbox.conf")}}}}
	if r.InstallsProgram {
		units = append(units, Unit{Name: programUnit, Content: r.render("program.service")})
	}
	return units
}

// strict returns the unit without the powers that services have by default, but for this access to the disk.
func (r *rendering) strict(u Unit, access string) Unit {
	r.DiskAccess = access
	u.Dropins = []Dropin{{strictDropin, r.render("strict.conf")}}
	return u
}

// storeUnits returns the units that mount the store.
func (r *rendering) storeUnits() []Unit {
	units := []Unit{
		{Name: StoreUnit, Content: r.render("store.service")},
		{Name: r.Mount, Content: r.render("store.mount")},
	}
	if r.Awaited != "" {
		units = append(units, Unit{Name: r.Awaited, Dropins: []Dropin{{deviceDropin, r.render("device.conf")}}})
	}
	if r.URL != "" {
		units = append(units, r.strict(Unit{Name: fetchUnit, Content: r.render("fetch-store.service")}, ""))
	}
	return units
}

// boot returns the script of what comes before the program is there, and its facts; none if there is nothing to do.
func (r *rendering) boot() []File {
	if r.Mount == "" && !r.InstallsProgram {
		return nil
	}
	return []File{text(layout.StoreEnvPath, r.Env.Render()), text(layout.BootPath, []byte(r.render("boot")))}
}

// node returns the units of a node.
func (r *rendering) node() []Unit {
	units := r.services()
	if r.Mount != "" {
		units = append(units, r.storeUnits()...)
	}
	units = append(units,
		Unit{Name: crio.Unit, Dropins: []Dropin{{Name: crioDropin, Content: r.render("crio.conf")}}},
		Unit{Name: mountUnit, Content: r.render("mount.service")},
		Unit{Name: firstbootUnit, Content: r.render("firstboot.service")},
		Unit{Name: nodeUnit, Enabled: true, Content: r.render("node.service")})
	if r.AutoAttach {
		units = append(units, Unit{Name: attachUnit, Content: r.render("attach.service")})
	}
	if r.CopyVolumes {
		units = append(units, Unit{
			Name: volumesUnit, Content: r.render("volumes.service"),
			Dropins: []Dropin{{volumesDropin, r.render("volumes.conf")}},
		})
	}
	if r.ImageStore != "" {
		units = append(units, Unit{Name: imageUnit, Enabled: true, Content: r.render("image-store.service")})
	}
	if r.VolumeLabel != "" {
		units = append(units, Unit{Name: UnitName(r.MediumDir), Content: r.render("medium.mount")})
	}
	if len(r.StoreFiles) > 0 {
		units = append(units, Unit{
			Name: filesUnit, Enabled: true, Content: r.render("files.service"),
			Dropins: []Dropin{{filesDropin, r.render("files.conf")}},
		})
	}
	return units
}
