package look

import (
	"fmt"
	"io/fs"
	"time"
)

// File is a file of an image.
type File struct {
	// Name is relative to the folder that is listed.
	Name string `json:"name"`
	Mode Mode   `json:"mode"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	// Size of a regular file in bytes.
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
	// Target of a symbolic link.
	Target string `json:"target,omitempty"`
	// Major and Minor number of a device.
	Major uint32 `json:"major,omitempty"`
	Minor uint32 `json:"minor,omitempty"`

	whiteout, opaque bool // as overlayfs marks files
}

// Mode is the kind and the permissions of a file.
type Mode fs.FileMode

// IsDir reports whether it is a folder.
func (m Mode) IsDir() bool { return fs.FileMode(m).IsDir() }

func (m Mode) isRegular() bool { return fs.FileMode(m).IsRegular() }
func (m Mode) isLink() bool    { return fs.FileMode(m).Type() == fs.ModeSymlink }
func (m Mode) isDevice() bool  { return m&Mode(fs.ModeDevice) != 0 }

// String is the mode as ls(1) shows it.
func (m Mode) String() string {
	text := []byte("-" + fs.FileMode(m).Perm().String()[1:])
	for _, kind := range []struct {
		bits   fs.FileMode
		letter byte
	}{
		{fs.ModeDir, 'd'}, {fs.ModeSymlink, 'l'}, {fs.ModeNamedPipe, 'p'}, {fs.ModeSocket, 's'}, {fs.ModeDevice, 'b'},
		{fs.ModeDevice | fs.ModeCharDevice, 'c'},
	} {
		if fs.FileMode(m).Type() == kind.bits {
			text[0] = kind.letter
		}
	}
	for _, special := range []struct {
		bit         fs.FileMode
		at          int
		with, alone byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if fs.FileMode(m)&special.bit == 0 {
			continue
		}
		if text[special.at] == 'x' {
			text[special.at] = special.with
		} else {
			text[special.at] = special.alone
		}
	}
	return string(text)
}

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Row is the file as `ls -l` shows it, in columns with tabs between them, up to the name.
func (f File) Row() string {
	size := fmt.Sprint(f.Size)
	if f.Mode.isDevice() {
		size = fmt.Sprintf("%d,%d", f.Major, f.Minor)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s\t%s", f.Mode, f.UID, f.GID, size, f.ModTime.UTC().Format("2006-01-02 15:04"))
}
