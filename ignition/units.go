package ignition

import (
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
	// Mount is the name of the store's unit, "" if there is none.
	Mount string
	// VolumeLabel and MediumDir are of a medium with the store alone.
	VolumeLabel, MediumDir string
	// Program and FilesDir are paths in the store, MediumLabel the volume label of a delta.
	Program, FilesDir, MediumLabel string
	StoreFiles                     []File
	AutoAttach                     bool
	Disk                           string
	err                            error
}

func newTemplates(s Store) *rendering {
	r := &rendering{Program: layout.OwnProgram, FilesDir: layout.OwnFiles, MediumLabel: layout.MediumLabel}
	if s.Folder != "" {
		r.Where = s.Folder
		return r
	}
	r.What, r.Where, r.Options = s.NodePath(), crio.Slots()[0], s.options()
	r.Mount, r.VolumeLabel, r.MediumDir = unitName(r.Where), s.VolumeLabel, layout.MediumMount
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

// node returns the units of a node.
func (r *rendering) node() []unit {
	var units []unit
	if r.Mount != "" {
		units = []unit{{Name: r.Mount, Enabled: true, Contents: r.render("store.mount")}}
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
