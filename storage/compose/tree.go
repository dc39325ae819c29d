package compose

import (
	"fmt"
	"maps"
	"path"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Errors in the entries of a layer.
var (
	ErrEscape = fault.New(fault.Input, "path leads out of the layer",
		"the image is malformed or malicious; build it again")
	ErrEntry = fault.New(fault.Input, "layer entry cannot be unpacked",
		"the image is malformed; build it again")
)

// Names of the OCI image specification's layer.md, "Whiteouts".
const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	metaPrefix     = ".wh..wh." // metadata of AUFS, not part of an image
)

// opaqueXattr marks a directory that hides the content of lower layers in overlayfs.
const opaqueXattr = "trusted.overlay.opaque"

const (
	maxLinks     = 255 // symbolic links on the way to one entry
	maxNameLen   = 255
	maxTargetLen = 4096 // PATH_MAX, and the limit of the kernel's squashfs
)

// tree is the diff directory of a layer, as far as the tar stream was read. Names are resolved
// within the layer, as containers/storage does when it unpacks a layer into an empty directory.
type tree struct {
	root *squashfs.Inode
	// replaced is called with each inode that loses a name.
	replaced func(*squashfs.Inode)
	// linked reports whether the last walk followed a symbolic link: the link may be replaced
	// later, and outside of a container an absolute link refers to files of the host.
	linked bool
	budget *budget
}

// fromBelow marks a mode that is inherited from the layer below, which is unknown when a layer is
// packed.
const fromBelow = 1 << 31

// newTree starts a layer. Without an entry for its root directory, a layer inherits mode and owner
// of its parent's: drivers/overlay in containers/storage, getLayerPermissions.
func newTree(b *budget, tmp string) *tree {
	root := squashfs.NewDir(0, 0, 0, 0)
	root.Spool(tmp)
	root.Mode |= fromBelow
	return &tree{root: root, budget: b, replaced: func(*squashfs.Inode) {}}
}

// inheritSetGID replaces fromBelow in the tree of a layer by the set-group-ID bit of the root
// directory below, as mkdir(2) does.
func inheritSetGID(i *squashfs.Inode, below rootAttributes) {
	if i.Mode&fromBelow != 0 {
		i.Mode = i.Mode&^fromBelow | below.perm&syscall.S_ISGID
	}
	for child := range i.Children() { // files inherit nothing
		inheritSetGID(child, below)
	}
}

// inheritRoot replaces fromBelow in the tree of a layer by the attributes of the root directory
// below.
func inheritRoot(root *squashfs.Inode, below rootAttributes) {
	if root.Mode&fromBelow != 0 {
		root.UID, root.GID = below.uid, below.gid
		root.Mode |= below.perm
	}
	inheritSetGID(root, below)
}

// rootAttributes are mode and owner of a layer's root directory.
type rootAttributes struct{ perm, uid, gid uint32 }

func attributesOf(root *squashfs.Inode) rootAttributes {
	return rootAttributes{perm: root.Mode & 07777, uid: root.UID, gid: root.GID}
}

// FormatRootAttributes returns mode, user and group of a layer's root directory in the format of
// the lock, such as 0755:0:0.
func FormatRootAttributes(perm, uid, gid uint32) string {
	return fmt.Sprintf("%04o:%d:%d", perm, uid, gid)
}

func (r rootAttributes) String() string { return FormatRootAttributes(r.perm, r.uid, r.gid) }

// parseRootAttributes reads the format of FormatRootAttributes. It returns nil for "".
func parseRootAttributes(text string) (*rootAttributes, error) {
	if text == "" {
		return nil, nil
	}
	var r rootAttributes
	_, err := fmt.Sscanf(text, "%o:%d:%d", &r.perm, &r.uid, &r.gid)
	if err != nil || r.String() != text || r.perm > 0o7777 {
		return nil, fmt.Errorf("%q: not mode, user and group, such as 0755:0:0", text)
	}
	return &r, nil
}

// inherits reports whether an inode of the tree inherits from the layer below.
func inherits(i *squashfs.Inode) bool {
	if i.Mode&fromBelow != 0 {
		return true
	}
	for child := range i.Children() {
		if inherits(child) {
			return true
		}
	}
	return false
}

// locate returns the directory and the base name of an entry, and creates missing directories. The
// base name of the root directory is "".
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
	return dir, strings.Clone(base), nil // lets the path be freed
}

// inside refuses names that lead out of the layer. Absolute names start at the layer's root
// directory, as in all programs that unpack images.
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

// walk follows a path from the layer's root directory, and follows the symbolic links of the layer.
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
		if err := t.budget.step(1); err != nil {
			return nil, err
		}
		next := here.Entry(name)
		switch {
		case len(stack) > maxDepth:
			return nil, fmt.Errorf("%w: more than %d directories deep", ErrEntry, maxDepth)
		case next == nil:
			if len(name) > maxNameLen {
				return nil, fmt.Errorf("%w: a name of %d bytes", ErrEntry, len(name))
			}
			if err := t.budget.name(len(name)); err != nil {
				return nil, err
			}
			next = implicitDir()
			next.Mode |= here.Mode & (syscall.S_ISGID | fromBelow) // as mkdir(2) does
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
			if err := t.budget.step(len(todo)); err != nil {
				return nil, err
			}
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

// Errors for an entry below a name that is not a directory in the same layer. A whiteout there is
// redundant: some tools write one for a directory, and then others for its content.
var (
	errBelowWhiteout = fmt.Errorf("%w: the same layer deletes its directory", ErrEntry)
	errBelowFile     = fmt.Errorf("%w: its parent is not a directory in the layer", ErrEntry)
)

func implicitDir() *squashfs.Inode { return squashfs.NewDir(0o755, 0, 0, 0) }

func isWhiteout(i *squashfs.Inode) bool {
	return i.Mode&syscall.S_IFMT == syscall.S_IFCHR && i.Major == 0 && i.Minor == 0
}

// put adds an inode under a name. It merges a directory with an existing one. A directory that replaces a whiteout
// shows what lower layers have there, as after a pull, although the image specification hides it. The caller does not
// use the inode any more, unless it has other names.
func (t *tree) put(dir *squashfs.Inode, name string, i *squashfs.Inode, linked bool) {
	old := dir.Entry(name)
	switch {
	case old == nil:
	case old.IsDir() && i.IsDir():
		merge(old, i)
		return
	default:
		t.replaced(old)
	}
	if linked {
		dir.Link(name, i)
		return
	}
	uid, gid := i.UID, i.GID
	i.UID, i.GID = 0, 0 // of a file that root has made
	setOwner(i, uid, gid)
	dir.Add(name, i)
}

// merge replaces the attributes of a directory by those of a later entry.
func merge(dir, entry *squashfs.Inode) {
	dir.Mode, dir.ModTime = entry.Mode, entry.ModTime
	setOwner(dir, entry.UID, entry.GID)
	if dir.Xattrs == nil {
		dir.Xattrs = entry.Xattrs
		return
	}
	maps.Copy(dir.Xattrs, entry.Xattrs)
}

// sameOwner, -1 as a user or group, changes nothing: chown(2).
const sameOwner = ^uint32(0)

// setOwner changes the owner and the group of an inode as chown(2) does.
func setOwner(i *squashfs.Inode, uid, gid uint32) {
	if uid != sameOwner {
		i.UID = uid
	}
	if gid != sameOwner {
		i.GID = gid
	}
}

func makeOpaque(dir *squashfs.Inode) {
	if dir.Xattrs == nil {
		dir.Xattrs = map[string]string{}
	}
	dir.Xattrs[opaqueXattr] = "y"
}

// whiteout deletes a name of the lower layers. It does not affect entries of the same layer,
// whatever their order in the stream (image specification): a directory stays, and becomes opaque.
func (t *tree) whiteout(dir *squashfs.Inode, name string, uid, gid uint32) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%w: whiteout of %q", ErrEntry, name)
	}
	switch old := dir.Entry(name); {
	case old == nil:
		mark := &squashfs.Inode{Mode: syscall.S_IFCHR}
		setOwner(mark, uid, gid)
		dir.Add(name, mark)
	case old.IsDir():
		makeOpaque(old)
	}
	return nil
}
