package provision

import (
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/layout"
)

// AttachPath is that of pinbox-attach@.service where it is a file of a MachineConfig.
const AttachPath = UnitDir + "/" + attachUnit

// UnitDir has the units of an administrator: systemd.unit(5).
const UnitDir = "/etc/systemd/system"

// directoriesConf is a drop-in that only a node has whose files come from MachineConfigs.
const directoriesConf = "20-pinbox-directories.conf"

// Managed returns the parts as a MachineConfig can hold them. The operator takes a file that changes on the disk for
// damage, makes no directories on a running node, and names no unit with an @ where it says what restarts a service.
func (p Parts) Managed() Parts {
	var managed Parts
	// pinbox-node writes sets there, which its units may not make.
	directories := append(slices.Clone(p.Directories), layout.SetsDir)
	managed.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return f.Changes })
	mkdir := "ExecStartPre=/usr/bin/mkdir -p " + strings.Join(directories, " ")
	managed.Files = append(managed.Files, Tmpfiles(directories))
	for _, u := range p.Units {
		switch {
		case strings.Contains(u.Name, "@"):
			managed.Files = append(managed.Files, text(path.Join(UnitDir, u.Name), []byte(u.Content)))
			continue
		case u.Name == crio.Unit:
			u.Dropins = append(slices.Clone(u.Dropins), Dropin{directoriesConf,
				"[Service]\n# CRI-O does not start while one is missing.\n" + mkdir + "\n"})
		}
		managed.Units = append(managed.Units, u)
	}
	return managed
}
