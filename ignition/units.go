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

// rendering is what the templates of the units ask for.
type rendering struct {
	What, Where, Options string
	// Mount is the name of the store's unit, "" if there is none.
	Mount string
	// VolumeLabel and MediumDir are of a medium with the store alone.
	VolumeLabel, MediumDir string
	FilesDir               string
	StoreFiles             []File
	AutoAttach             bool
	Disk                   string
	err                    error
}

func newTemplates(s Store) *rendering {
	slot := crio.Slots()[0]
	if s.Folder != "" {
		return &rendering{Where: s.Folder, FilesDir: layout.OwnFiles}
	}
	return &rendering{
		What: s.NodePath(), Where: slot, Options: s.options(), Mount: unitName(slot),
		VolumeLabel: s.VolumeLabel, MediumDir: layout.MediumMount, FilesDir: layout.OwnFiles,
	}
}

// render keeps the first error.
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

// node gives the units of a node.
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
