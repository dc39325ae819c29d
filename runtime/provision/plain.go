package provision

import (
	"path"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
)

// Plain are the parts of a machine that has neither Ignition nor the Machine Config Operator, in the order in which
// they are written.
type Plain struct {
	Files       []File
	Links       []Link
	Directories []string
}

// Link is a link by which a unit is enabled.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// presetPath sorts before the presets of distributions: systemd.preset(5).
const presetPath = "/etc/systemd/system-preset/20-pinbox.preset"

// Plain returns the parts as files and links. The pins are left to pinbox-node.
func (p Parts) Plain() Plain {
	plain := Plain{Links: p.links(), Directories: p.Directories}
	// systemd applies presets when an image boots for the first time, and distributions disable whatever is not in theirs.
	preset := "# Written by pinbox.\n"
	for _, l := range plain.Links {
		preset += "enable " + path.Base(l.Path) + "\n"
	}
	plain.Files = []File{Tmpfiles(p.Directories), text(presetPath, []byte(preset))}
	for _, u := range p.Units {
		if u.Content != "" {
			plain.Files = append(plain.Files, text(path.Join(UnitDir, u.Name), []byte(u.Content)))
		}
		for _, d := range u.Dropins {
			plain.Files = append(plain.Files, text(path.Join(UnitDir, u.Name+".d", d.Name), []byte(d.Content)))
		}
	}
	var stores []File
	for _, f := range p.Files {
		switch f.Path {
		case crio.PinnedImagesPath:
		case crio.StoresPath:
			stores = append(stores, f)
		default:
			plain.Files = append(plain.Files, f)
		}
	}
	plain.Files = append(plain.Files, stores...) // last: the mount points that it names exist then
	return plain
}

// links are the links that `systemctl enable` would make: of the lines in [Install].
func (p Parts) links() (all []Link) {
	for _, u := range p.Units {
		if !u.Enabled {
			continue
		}
		_, install, _ := strings.Cut(u.Content, "\n[Install]\n")
		for line := range strings.Lines(install) {
			if target, ok := strings.CutPrefix(strings.TrimSpace(line), "WantedBy="); ok {
				all = append(all, Link{path.Join(UnitDir, target+".wants", u.Name), path.Join(UnitDir, u.Name)})
			}
		}
	}
	return all
}
