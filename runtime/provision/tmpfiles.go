package provision

import (
	"fmt"
	"strings"
)

// TmpfilesPath is read at each boot before CRI-O starts: tmpfiles.d(5).
const TmpfilesPath = "/etc/tmpfiles.d/pinbox.conf"

// Tmpfiles returns a file by which systemd makes the directories at each boot: for a node whose /var is not
// part of its image.
func Tmpfiles(directories []Directory) File {
	var b strings.Builder
	b.WriteString("# Written by pinbox: CRI-O does not start without the mount points of its image stores.\n")
	for _, d := range directories {
		// The mode of a directory that exists is left alone: a store may be mounted there.
		mode := "-"
		if d.Mode != 0o755 {
			mode = fmt.Sprintf("%04o", d.Mode)
		}
		fmt.Fprintf(&b, "d %s %s - - -\n", d.Path, mode)
	}
	return text(TmpfilesPath, []byte(b.String()))
}
