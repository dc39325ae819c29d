package compose

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// reader turns one layer's tar stream into a tree.
type reader struct {
	pack  *squashfs.Packer
	tree  *tree
	split *splitter

	entry      int                 // index of the tar entry; its content has the tag entry+1
	superseded map[int]bool        // entries whose content is not found under their names
	links      []pendingLink       // hard links whose target is not in the tree yet
	uids, gids map[uint32]struct{} // owners, for the layer's record
}

type pendingLink struct {
	name string
	hdr  *tar.Header
}

func newReader(p *squashfs.Packer, t *tree, s *splitter) *reader {
	r := &reader{
		pack: p, tree: t, split: s,
		superseded: map[int]bool{},
		uids:       map[uint32]struct{}{}, gids: map[uint32]struct{}{},
	}
	t.replaced = r.supersede
	return r
}

// supersede records the entries whose content can no longer be read under their names in the
// stream.
func (r *reader) supersede(i *squashfs.Inode) {
	if i.Content != nil && i.Content.Tag > 0 {
		r.superseded[int(i.Content.Tag-1)] = true
	}
	for _, child := range i.All() {
		r.supersede(child)
	}
}

// read reads the whole stream.
func (r *reader) read() error {
	tr := tar.NewReader(r.split)
	for ; ; r.entry++ {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: tar entry %d: %w", ErrEntry, r.entry, err)
		}
		if err := r.add(hdr, tr); err != nil {
			return err
		}
	}
	for _, l := range r.links {
		if err := r.link(l.name, l.hdr, true); err != nil {
			return err
		}
	}
	return r.split.close()
}

func (r *reader) add(hdr *tar.Header, tr io.Reader) error {
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if err := r.tree.budget.entry(hdr); err != nil {
		return fmt.Errorf("%q: %w", hdr.Name, err)
	}
	tr = r.tree.budget.reader(body{entry: tr, split: r.split})
	if !hasContent(hdr) {
		return r.place(hdr, nil)
	}
	if IsSparse(hdr) { // the stream contains the data without the holes
		content, err := r.pack.Content(tr)
		if err != nil {
			return fmt.Errorf("%q: %w", hdr.Name, err)
		}
		return r.place(hdr, content)
	}
	var content *squashfs.Content
	err := r.split.file(hdr.Name, hdr.Size, tr, func(body io.Reader) (err error) {
		if content, err = r.pack.Content(body); err == nil {
			content.Tag = int32(r.entry) + 1
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%q: %w", hdr.Name, err)
	}
	return r.place(hdr, content)
}

// body reads the content of an entry. If it fails, but the stream has not, the tar file is malformed: it ends early, or
// the holes of a sparse file are no holes.
type body struct {
	entry io.Reader
	split *splitter
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.entry.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !b.split.failed {
		err = fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return n, err
}

// hasContent reports whether data follow the header: other types have none, whatever their size.
func hasContent(hdr *tar.Header) bool {
	return hdr.Typeflag == tar.TypeReg || hdr.Typeflag == tar.TypeGNUSparse || hdr.Typeflag == tar.TypeCont
}

// IsSparse reports whether a member is a sparse file: its bytes in the archive are not its contents.
func IsSparse(hdr *tar.Header) bool {
	if hdr.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// place adds an entry to the tree.
func (r *reader) place(hdr *tar.Header, content *squashfs.Content) error {
	dir, name, err := r.tree.locate(hdr.Name)
	below := errors.Is(err, errBelowWhiteout)
	marker := strings.HasPrefix(path.Base(hdr.Name), whiteoutPrefix)
	if content != nil && (r.tree.linked || marker) {
		r.superseded[r.entry] = true // not found under its name
	}
	switch {
	case marker && (below || errors.Is(err, errBelowFile)):
		return nil
	case below:
		return r.revive(hdr, content)
	case err != nil:
		return err
	case name == "" && hdr.Typeflag != tar.TypeDir:
		return fmt.Errorf("%q: %w: the root directory of a layer must be a directory", hdr.Name, ErrEntry)
	case name == opaqueMarker:
		makeOpaque(dir)
		return nil
	case strings.HasPrefix(name, metaPrefix):
		return nil
	case strings.HasPrefix(name, whiteoutPrefix):
		if err := r.tree.whiteout(dir, name[len(whiteoutPrefix):], uint32(hdr.Uid), uint32(hdr.Gid)); err != nil {
			return fmt.Errorf("%q: %w", hdr.Name, err)
		}
		return nil
	}
	r.uids[uint32(hdr.Uid)] = struct{}{}
	r.gids[uint32(hdr.Gid)] = struct{}{}
	if hdr.Typeflag == tar.TypeLink {
		return r.link(hdr.Name, hdr, false)
	}
	i, err := inode(hdr, content)
	if err != nil {
		return err
	}
	if name == "" {
		merge(r.tree.root, i)
	} else {
		r.tree.put(dir, name, i, false)
	}
	return nil
}

// revive adds an entry below a directory that the same layer deleted before: it creates the
// directory again, without the content of lower layers.
func (r *reader) revive(hdr *tar.Header, content *squashfs.Content) error {
	parts := strings.Split(strings.Trim(hdr.Name, "/"), "/")
	for n := 1; n < len(parts); n++ {
		dir, name, err := r.tree.locate(strings.Join(parts[:n], "/"))
		if err != nil {
			return err
		}
		if old := dir.Entry(name); old != nil && isWhiteout(old) {
			again := implicitDir()
			makeOpaque(again)
			r.tree.put(dir, name, again, false)
			return r.place(hdr, content)
		}
	}
	return fmt.Errorf("%q: %w", hdr.Name, errBelowWhiteout)
}

// link creates a hard link. If its target may come later in the stream, link defers it. The
// attributes of the entry replace those of the file.
func (r *reader) link(name string, hdr *tar.Header, last bool) error {
	targetDir, targetName, err := r.tree.locate(hdr.Linkname)
	if err != nil {
		return fmt.Errorf("hard link %q: %w", name, err)
	}
	target := targetDir.Entry(targetName)
	switch {
	case target == nil && !last:
		r.links = append(r.links, pendingLink{name: name, hdr: hdr})
		return nil
	case target == nil:
		return fmt.Errorf("hard link %q: %w: its target %q is not in the layer", name, ErrEntry, hdr.Linkname)
	case target.IsDir():
		return fmt.Errorf("hard link %q: %w: its target %q is a directory", name, ErrEntry, hdr.Linkname)
	}
	dir, base, err := r.tree.locate(name)
	if err != nil {
		return fmt.Errorf("hard link %q: %w", name, err)
	}
	setOwner(target, uint32(hdr.Uid), uint32(hdr.Gid))
	if !target.IsSymlink() {
		target.Mode = target.Mode&syscall.S_IFMT | uint32(hdr.Mode&07777)
		target.ModTime = hdr.ModTime.Unix()
	}
	attrs, err := xattrs(hdr, target.Mode)
	if err != nil {
		return err
	}
	if target.Xattrs == nil {
		target.Xattrs = attrs
	} else {
		maps.Copy(target.Xattrs, attrs)
	}
	if dir.Entry(base) != target {
		r.tree.put(dir, base, target, true)
	}
	return nil
}

// inode converts a tar header.
func inode(hdr *tar.Header, content *squashfs.Content) (*squashfs.Inode, error) {
	i := &squashfs.Inode{
		UID: uint32(hdr.Uid), GID: uint32(hdr.Gid), ModTime: hdr.ModTime.Unix(),
	}
	perm := uint32(hdr.Mode & 07777)
	switch hdr.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		i.Mode, i.Content = syscall.S_IFREG|perm, content
	case tar.TypeDir:
		i = squashfs.NewDir(perm, i.UID, i.GID, i.ModTime)
	case tar.TypeSymlink:
		if n := len(hdr.Linkname); n == 0 || n >= maxTargetLen {
			return nil, fmt.Errorf("%q: %w: a symbolic link to %d bytes", hdr.Name, ErrEntry, n)
		}
		i.Mode, i.Target = syscall.S_IFLNK|0o777, hdr.Linkname
	case tar.TypeChar:
		i.Mode = syscall.S_IFCHR | perm
	case tar.TypeBlock:
		i.Mode = syscall.S_IFBLK | perm
	case tar.TypeFifo:
		i.Mode = syscall.S_IFIFO | perm
	default:
		return nil, fmt.Errorf("%q: %w: tar type %q", hdr.Name, ErrEntry, hdr.Typeflag)
	}
	if hdr.Typeflag == tar.TypeChar || hdr.Typeflag == tar.TypeBlock {
		i.Major, i.Minor = uint32(hdr.Devmajor), uint32(hdr.Devminor)
	}
	var err error
	i.Xattrs, err = xattrs(hdr, i.Mode)
	return i, err
}

const xattrRecord = "SCHILY.xattr."

// Limits of the kernel: XATTR_NAME_MAX and XATTR_SIZE_MAX, in bytes.
const (
	maxXattrName  = 255
	maxXattrValue = 64 << 10
)

// xattrs returns the extended attributes of an entry, without SELinux labels, as containers/storage does
// (xattrsToIgnore): those of overlayfs itself too. Attributes that the kernel would refuse during a pull are errors.
func xattrs(hdr *tar.Header, mode uint32) (map[string]string, error) {
	var attrs map[string]string
	for key, value := range hdr.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrRecord)
		if !ok || !squashfs.SupportsXattr(name) || name == "security.selinux" {
			continue
		}
		class, short, _ := strings.Cut(name, ".")
		kind := mode & syscall.S_IFMT
		switch {
		case short == "" || len(name) > maxXattrName || len(value) > maxXattrValue:
			return nil, fmt.Errorf("%q: %w: an attribute of %d bytes with a name of %d", hdr.Name, ErrEntry, len(value),
				len(name))
		case class == "user" && kind != syscall.S_IFREG && kind != syscall.S_IFDIR:
			return nil, fmt.Errorf("%q: %w: attribute %s is for files and directories only", hdr.Name, ErrEntry, name)
		}
		if attrs == nil {
			attrs = map[string]string{}
		}
		attrs[name] = value
	}
	return attrs, nil
}

// count returns the number of inodes in the tree.
func count(root *squashfs.Inode) int64 {
	seen, added := map[*squashfs.Inode]struct{}{}, int64(0)
	var walk func(*squashfs.Inode)
	walk = func(i *squashfs.Inode) {
		seen[i] = struct{}{}
		added += int64(i.Added())
		for child := range i.Children() {
			walk(child)
		}
	}
	walk(root)
	return int64(len(seen)) + added
}

func sorted(ids map[uint32]struct{}) []uint32 { return slices.Sorted(maps.Keys(ids)) }
