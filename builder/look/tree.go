package look

import (
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// tree is a folder of a store, with the tree of a layer.
type tree struct {
	files fs.FS
	root  string
}

func (t tree) Lstat(name string) (f File, err error) {
	name = path.Join(t.root, name)
	fi, err := fs.Lstat(t.files, name)
	if err != nil {
		return f, err
	}
	f = File{Mode: Mode(fi.Mode()), ModTime: fi.ModTime()}
	switch {
	case f.Mode.isLink():
		f.Target, err = fs.ReadLink(t.files, name)
	case f.Mode.isRegular():
		f.Size = fi.Size()
	}
	if err != nil {
		return f, err
	}
	if image, ok := t.files.(*squashfs.Reader); ok {
		a, err := image.Attributes(name)
		f.UID, f.GID, f.Major, f.Minor = a.UID, a.GID, a.Major, a.Minor
		f.whiteout, f.opaque = f.isWhiteout(), a.Xattrs[opaqueAttributes[0]] == "y"
		return f, err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		device := uint64(st.Rdev) //nolint:unconvert // an int32 elsewhere
		f.UID, f.GID, f.Major, f.Minor = st.Uid, st.Gid, unix.Major(device), unix.Minor(device)
	}
	f.whiteout, f.opaque = f.isWhiteout(), f.Mode.IsDir() && isOpaque(t.files, name)
	return f, nil
}

func (f File) isWhiteout() bool {
	return fs.FileMode(f.Mode).Type() == fs.ModeDevice|fs.ModeCharDevice && f.Major == 0 && f.Minor == 0
}

// opaqueAttributes mark a folder that hides those of lower layers. The second one is that of a store that was written
// in a user namespace.
var opaqueAttributes = [2]string{"trusted.overlay.opaque", "user.overlay.opaque"}

// isOpaque reads the attributes of a folder on a disk. What cannot be read is not there: the first one takes root, as
// does such a store.
func isOpaque(files fs.FS, name string) bool {
	f, err := files.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	folder, ok := f.(*os.File)
	value := make([]byte, 1)
	for _, attribute := range opaqueAttributes {
		if !ok {
			return false
		}
		if n, err := unix.Fgetxattr(int(folder.Fd()), attribute, value); err == nil && n == 1 && value[0] == 'y' {
			return true
		}
	}
	return false
}

func (t tree) ReadDir(name string) (names []string, err error) {
	entries, err := fs.ReadDir(t.files, path.Join(t.root, name))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (t tree) Open(name string) (io.ReadCloser, error) { return t.files.Open(path.Join(t.root, name)) }

// onDisk is the store of a layer on a disk. In a tar stream, names may lead through links of the layer: as in a
// container, these do not lead out of it.
type onDisk struct{ tree }

func (d onDisk) Open(name string) (fs.File, error) {
	if below, ok := strings.CutPrefix(name, d.root+"/"); ok {
		n, err := View{d.tree}.resolve(below)
		if err == nil && !n.Mode.isRegular() { // to open a pipe would block
			err = wrong(n.path, fs.ErrNotExist)
		}
		if err != nil {
			return nil, err
		}
		name = path.Join(d.root, n.path)
	}
	return d.files.Open(name)
}
