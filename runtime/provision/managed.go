package provision

import (
	"fmt"
	"slices"
	"strings"
)

// AttachPath is that of pinbox-attach@.service where it is a file of a MachineConfig.
const AttachPath = unitsDir + attachUnit

// Names that only a node has whose files come from MachineConfigs.
const (
	unitsDir         = "/etc/systemd/system/"
	tmpfilesPath     = "/etc/tmpfiles.d/pinbox.conf"
	directoriesConf  = "20-pinbox-directories.conf"
	crioUnit         = "crio.service"
	directoriesAbout = "# Written by pinbox: whoever reads the list of image stores fails while one is missing.\n"
)

// Managed returns the parts as a MachineConfig can hold them. The operator takes a file that changes on the disk for
// damage, makes no directories on a running node, and names no unit with an @ where it says what restarts a service.
func (p Parts) Managed() Parts {
	var managed Parts
	managed.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return f.Changes })
	var lines strings.Builder
	lines.WriteString(directoriesAbout)
	mkdir := "ExecStartPre=/usr/bin/mkdir -p"
	for _, d := range p.Directories {
		// The colons leave a store alone that is mounted there: tmpfiles.d(5).
		fmt.Fprintf(&lines, "d %s :%04o :root :root -\n", d.Path, d.Mode)
		mkdir += " " + d.Path
	}
	managed.Files = append(managed.Files, text(tmpfilesPath, []byte(lines.String())))
	for _, u := range p.Units {
		switch {
		case strings.Contains(u.Name, "@"):
			managed.Files = append(managed.Files, text(unitsDir+u.Name, []byte(u.Content)))
			continue
		case u.Name == crioUnit:
			u.Dropins = append(slices.Clone(u.Dropins), Dropin{directoriesConf,
				"[Service]\n# CRI-O does not start while one is missing.\n" + mkdir + "\n"})
		}
		managed.Units = append(managed.Units, u)
	}
	return managed
}
