package provision

import (
	"fmt"
	"strings"
)

// TmpfilesPath is read at each boot before CRI-O starts: tmpfiles.d(5).
const TmpfilesPath = "/etc/tmpfiles.d/pinbox.conf"

// Tmpfiles returns a file by which systemd makes the directories at each boot: for a node whose /var is not
// part of its image.
func Tmpfiles(directories []string) File {
	var b strings.Builder
	b.WriteString("# CRI-O does not start without the directories of its stores.\n")
	for _, directory := range directories {
		// Without a mode, that of a directory that exists is left alone: a store may be mounted there.
		fmt.Fprintf(&b, "d %s\n", directory)
	}
	return text(TmpfilesPath, []byte(b.String()))
}
