package ignition

import (
	"cmp"
	"embed"
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
	// ProgramSum is the SHA-256 of Program.
	ProgramSum string
	// VolumeLabel and MediumDir are of a medium with the store alone.
	VolumeLabel, MediumDir string
	// Program and FilesDir are paths in the store, MediumLabel the volume label of a delta.
	Program, FilesDir, MediumLabel string
	StoreFiles                     []File
	AutoAttach                     bool
	Disk                           string
	err                            error
}

// label is a label of a device, in a column of lsblk(8).
type label struct{ Column, Value string }

func newTemplates(s Store) *rendering {
	r := &rendering{
		Program: layout.OwnProgram, FilesDir: layout.OwnFiles, MediumLabel: layout.MediumLabel,
	}
	if s.Program != "" {
		r.ProgramSum = s.Program.Encoded()
	}
	if s.Folder != "" {
		r.Where = s.Folder
		return r
	}
	r.What, r.Where, r.Options = layout.StoreLink, crio.Slots()[0], s.options()
	r.Mount, r.VolumeLabel, r.MediumDir = unitName(r.Where), s.VolumeLabel, layout.MediumMount
	r.Service, r.Store, r.Script = storeUnit, s.NodePath(), layout.OpenStorePath
	switch {
	case s.PartitionLabel != "":
		r.Label = &label{"PARTLABEL", s.PartitionLabel}
		r.Device = `dev-disk-by\x2dpartlabel-` + strings.ReplaceAll(s.PartitionLabel, "-", `\x2d`) + ".device"
	case s.VolumeLabel != "":
		r.Label = &label{"LABEL", s.VolumeLabel}
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
func (r *rendering) storeUnits() []unit {
	return []unit{
		{Name: storeUnit, Contents: r.render("store.service")},
		{Name: r.Mount, Enabled: true, Contents: r.render("store.mount")},
	}
}

// openStore returns the script that opens the store; none if nothing is mounted.
func (r *rendering) openStore() []file {
	if r.Mount == "" {
		return nil
	}
	return []file{text(layout.OpenStorePath, []byte(r.render("open-store")))}
}

// node returns the units of a node.
func (r *rendering) node() []unit {
	var units []unit
	if r.Mount != "" {
		units = r.storeUnits()
	}
	units = append(units,
		unit{Name: "crio.service", Dropins: []dropin{{Name: crioDropin, Contents: r.render("crio.conf")}}},
		unit{Name: mountUnit, Contents: r.render("mount.service")},
		unit{Name: firstbootUnit, Enabled: true, Contents: r.render("firstboot.service")},
		unit{Name: nodeUnit, Enabled: true, Contents: r.render("node.service")})
	if r.AutoAttach {
		units = append(units, unit{Name: attachUnit, Contents: r.render("attach.service")})
	}
	if r.VolumeLabel != "" {
		units = append(units, unit{Name: unitName(r.MediumDir), Contents: r.render("medium.mount")})
	}
	if len(r.StoreFiles) > 0 {
		units = append(units, unit{Name: filesUnit, Enabled: true, Contents: r.render("files.service")})
	}
	return units
}
