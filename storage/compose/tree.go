package compose

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// What can be wrong with the entries of a layer.
var (
	ErrEscape = errors.New("path leads out of the layer")
	ErrEntry  = errors.New("layer entry cannot be unpacked")
)

// Names of the OCI image specification's layer.md, "Whiteouts".
const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	metaPrefix     = ".wh..wh." // bookkeeping of AUFS, never part of an image
)

// opaqueXattr is how overlayfs marks a directory that hides what lies below it,
// and overlayXattrs are its own words: no image may speak them.
const (
	opaqueXattr   = "trusted.overlay.opaque"
	overlayXattrs = "trusted.overlay."
)

const (
	maxLinks     = 255 // symbolic links on the way to one entry
	maxNameLen   = 255
	maxTargetLen = 4096 // PATH_MAX, and what the kernel's squashfs reads
)

// tree is the diff directory of one layer as the tar stream describes it so
// far. What a name means is decided by the tree of this layer alone, as it is
// when containers/storage unpacks the layer into an empty directory.
type tree struct {
	root *squashfs.Inode
	// replaced is called with every inode that loses a name.
	replaced func(*squashfs.Inode)
	// linked says whether the last walk went through a symbolic link: it may be
	// replaced later, and an absolute one leads those who read the layer outside
	// a container to their own host.
	linked bool
}

// fromBelow marks a mode that comes from the layer below, and those that inherit from
// it: what a layer unpacks to is known before it is known what it will stand on.
const fromBelow = 1 << 31

// newTree starts a layer. Without an entry for its root a layer has the root of
// its parent: drivers/overlay in containers/storage, getLayerPermissions.
func newTree() *tree {
	root := squashfs.NewDir(0, 0, 0, 0)
	root.Mode |= fromBelow
	return &tree{root: root, replaced: func(*squashfs.Inode) {}}
}

// settle puts what comes from the layer below into the tree of a layer.
func settle(i *squashfs.Inode, below rootOwner) {
	if i.Mode&fromBelow != 0 {
		i.Mode = i.Mode&^fromBelow | below.perm&syscall.S_ISGID
	}
	for _, child := range i.Entries() {
		settle(child, below)
	}
}

// settleRoot does that for a whole layer.
func settleRoot(root *squashfs.Inode, below rootOwner) {
	if root.Mode&fromBelow != 0 {
		root.UID, root.GID = below.uid, below.gid
		root.Mode |= below.perm
	}
	settle(root, below)
}

type rootOwner struct{ perm, uid, gid uint32 }

func ownerOf(root *squashfs.Inode) rootOwner {
	return rootOwner{perm: root.Mode & 07777, uid: root.UID, gid: root.GID}
}

// FormatRootAttributes is how a lock tells what layers inherit of the root of a layer.
func FormatRootAttributes(perm, uid, gid uint32) string {
	return fmt.Sprintf("%04o:%d:%d", perm, uid, gid)
}

func (r rootOwner) String() string { return FormatRootAttributes(r.perm, r.uid, r.gid) }

// parseRoot reads what FormatRoot gives; nil is not known.
func parseRoot(text string) (*rootOwner, error) {
	if text == "" {
		return nil, nil
	}
	var r rootOwner
	_, err := fmt.Sscanf(text, "%o:%d:%d", &r.perm, &r.uid, &r.gid)
	if err != nil || r.String() != text || r.perm > 0o7777 {
		return nil, fmt.Errorf("%q is no mode, user and group as 0755:0:0", text)
	}
	return &r, nil
}

// inherits says whether anything of a layer comes from the one below.
func inherits(i *squashfs.Inode) bool {
	if i.Mode&fromBelow != 0 {
		return true
	}
	for _, child := range i.Entries() {
		if inherits(child) {
			return true
		}
	}
	return false
}

// locate finds the directory and the name of an entry, and makes directories
// that the layer does not mention. The name of the root is "".
func (t *tree) locate(name string) (dir *squashfs.Inode, base string, err error) {
	if err := inside(name); err != nil {
		return nil, "", err
	}
	clean := path.Clean("/" + name)
	if clean == "/" {
		return t.root, "", nil
	}
	parent, base := path.Split(clean)
	if n := len(strings.TrimPrefix(base, whiteoutPrefix)); n > maxNameLen || len(clean) > maxTargetLen {
		return nil, "", fmt.Errorf("%q: %w: a name of %d bytes in a path of %d", name, ErrEntry, n, len(clean))
	}
	dir, err = t.walk(parent)
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", name, err)
	}
	return dir, strings.Clone(base), nil // the path goes, the name stays
}

// inside refuses names that climb over the root. Absolute names count from the
// root of the layer, as they do for every unpacker of images.
func inside(name string) error {
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return fmt.Errorf("%q: %w", name, ErrEscape)
			}
		default:
			depth++
		}
	}
	return nil
}

// walk follows a path from the root of the layer, through the symbolic links
// that the layer has.
func (t *tree) walk(dirs string) (*squashfs.Inode, error) {
	t.linked = false
	stack := []*squashfs.Inode{t.root}
	todo := strings.Split(dirs, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		here := stack[len(stack)-1]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(stack) == 1 {
				return nil, ErrEscape
			}
			stack = stack[:len(stack)-1]
			continue
		}
		next := here.Entry(name)
		switch {
		case next == nil:
			if len(name) > maxNameLen {
				return nil, fmt.Errorf("%w: a name of %d bytes", ErrEntry, len(name))
			}
			next = implicitDir()
			next.Mode |= here.Mode & (syscall.S_ISGID | fromBelow) // as mkdir(2) has it
			here.Set(strings.Clone(name), next)
		case next.IsSymlink():
			if links++; links > maxLinks {
				return nil, fmt.Errorf("%w: more than %d symbolic links", ErrEntry, maxLinks)
			}
			t.linked = true
			if path.IsAbs(next.Target) {
				stack = stack[:1]
			}
			todo = append(strings.Split(next.Target, "/"), todo...)
			continue
		case isWhiteout(next):
			return nil, errBelowWhiteout
		case !next.IsDir():
			return nil, fmt.Errorf("%w: %s", errBelowFile, name)
		}
		stack = append(stack, next)
	}
	return stack[len(stack)-1], nil
}

// errBelowWhiteout: some tools write a whiteout for a directory and then others
// for what was in it; the latter say nothing new.
var errBelowWhiteout = fmt.Errorf("%w: its directory is deleted by the same layer", ErrEntry)

// errBelowFile: likewise, where a file has taken the directory's place.
var errBelowFile = fmt.Errorf("%w: its directory is not one in this layer", ErrEntry)

func implicitDir() *squashfs.Inode { return squashfs.NewDir(0o755, 0, 0, 0) }

func isWhiteout(i *squashfs.Inode) bool {
	return i.Mode&syscall.S_IFMT == syscall.S_IFCHR && i.Major == 0 && i.Minor == 0
}

// put gives a name to an inode. A directory over a directory merges with it, a
// directory over a whiteout hides what the whiteout hid.
func (t *tree) put(dir *squashfs.Inode, name string, i *squashfs.Inode) {
	old := dir.Entry(name)
	switch {
	case old == nil:
	case old.IsDir() && i.IsDir():
		merge(old, i)
		return
	case isWhiteout(old) && i.IsDir():
		makeOpaque(i)
	default:
		t.replaced(old)
	}
	dir.Set(name, i)
}

// merge gives a directory the attributes of a later entry for it.
func merge(dir, entry *squashfs.Inode) {
	dir.Mode, dir.UID, dir.GID, dir.ModTime = entry.Mode, entry.UID, entry.GID, entry.ModTime
	if dir.Xattrs == nil {
		dir.Xattrs = entry.Xattrs
		return
	}
	maps.Copy(dir.Xattrs, entry.Xattrs)
}

func makeOpaque(dir *squashfs.Inode) {
	if dir.Xattrs == nil {
		dir.Xattrs = map[string]string{}
	}
	dir.Xattrs[opaqueXattr] = "y"
}

// whiteout deletes a name of the layers below. It says nothing about entries of
// its own layer, wherever in the stream they stand (image specification): there
// a directory stays, and hides the one below.
func (t *tree) whiteout(dir *squashfs.Inode, name string, uid, gid uint32) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%w: whiteout of %q", ErrEntry, name)
	}
	switch old := dir.Entry(name); {
	case old == nil:
		dir.Set(name, &squashfs.Inode{Mode: syscall.S_IFCHR, UID: uid, GID: gid})
	case old.IsDir():
		makeOpaque(old)
	}
	return nil
}
