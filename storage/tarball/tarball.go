package tarball

import (
	"archive/tar"
	"fmt"
	"io"
	"path"
	"syscall"
	"time"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Writer writes a tree in parts, each when it is complete, and does not retain them. Its methods
// are not for concurrent use.
type Writer struct {
	tar      *tar.Writer
	unpacker *squashfs.Unpacker
	packs    []io.Closer
	written  map[string]bool // directories
	// first has the first name of each file with several names in the tree that is being written;
	// "" if it is not written yet.
	first map[*squashfs.Inode]string
}

// NewWriter starts a tar stream of trees whose contents are in packs of the compressor. The caller
// ends it with Close or Abort.
func NewWriter(out io.Writer, compressor *squashfs.Compressor) *Writer {
	return &Writer{tar: tar.NewWriter(out), unpacker: compressor.NewUnpacker(), written: map[string]bool{}}
}

// AddPack adds a pack with contents of the trees. The writer closes its file. Several packs may
// have the same file.
func (w *Writer) AddPack(p *squashfs.Pack) { w.packs = append(w.packs, p.File()) }

// Settle does nothing: the content of the file is read from its pack later.
func (w *Writer) Settle(*squashfs.Inode) {}

// Abort ends the stream before it is complete, and closes the packs. A second call does nothing.
func (w *Writer) Abort() {
	for _, p := range w.packs {
		_ = p.Close() // only read
	}
}

// WriteTree writes a directory and the tree below it, after the directories above it, and removes
// the entries of the directory. Files of the tree must not have names outside of it. If a pack has
// changed since it was written, the error is a *squashfs.Damage.
func (w *Writer) WriteTree(dir *squashfs.Inode) error {
	if err := w.writeParents(dir); err != nil {
		return err
	}
	w.first = severalNames(dir)
	defer func() { w.first = nil }()
	name := dir.Path()
	if err := w.tree(name, dir); err != nil {
		return err
	}
	w.written[name] = true
	dir.Clear()
	return nil
}

// Close writes the rest of the tree below root and the end of the stream.
func (w *Writer) Close(root *squashfs.Inode) error {
	defer w.Abort()
	if err := w.WriteTree(root); err != nil {
		return err
	}
	return w.tar.Close()
}

// writeParents writes the directories above dir that have not been written.
func (w *Writer) writeParents(dir *squashfs.Inode) error {
	parent := dir.Parent()
	if parent == nil || w.written[parent.Path()] {
		return nil
	}
	if err := w.writeParents(parent); err != nil {
		return err
	}
	name := parent.Path()
	w.written[name] = true
	return w.entry(name, parent)
}

// severalNames returns the files of a tree that have several names, as the keys of a map of "".
func severalNames(dir *squashfs.Inode) map[*squashfs.Inode]string {
	seen, several := map[*squashfs.Inode]struct{}{}, map[*squashfs.Inode]string{}
	var walk func(*squashfs.Inode)
	walk = func(i *squashfs.Inode) {
		if _, ok := seen[i]; ok {
			several[i] = ""
		}
		seen[i] = struct{}{}
		for child := range i.Children() {
			walk(child)
		}
	}
	walk(dir)
	return several
}

func (w *Writer) tree(name string, i *squashfs.Inode) error {
	if !w.written[name] {
		if err := w.entry(name, i); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for base, child := range i.All() {
		if err := w.tree(path.Join(name, base), child); err != nil {
			return err
		}
	}
	return i.Err()
}

// entry writes the entry of one file.
func (w *Writer) entry(name string, i *squashfs.Inode) error {
	h := header(name, i)
	if first, several := w.first[i]; several {
		if first != "" {
			// The link has all attributes of the file: an extractor that sets its owner removes the
			// file's capabilities, and has to set them again.
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return w.tar.WriteHeader(h)
		}
		w.first[i] = name
	}
	if err := w.tar.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	return w.unpacker.Copy(w.tar, i.Content)
}

// Limits of device numbers in Linux: MINORBITS of include/linux/kdev_t.h.
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

func header(name string, i *squashfs.Inode) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: int64(i.Mode & 07777), Uid: int(i.UID), Gid: int(i.GID),
		ModTime: time.Unix(i.ModTime, 0),
	}
	switch i.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, path.Join(".", name)+"/"
	case syscall.S_IFLNK:
		h.Typeflag, h.Linkname = tar.TypeSymlink, i.Target
	case syscall.S_IFCHR:
		h.Typeflag, h.Devmajor, h.Devminor = tar.TypeChar, int64(i.Major&maxMajor), int64(i.Minor&maxMinor)
	case syscall.S_IFBLK:
		h.Typeflag, h.Devmajor, h.Devminor = tar.TypeBlock, int64(i.Major&maxMajor), int64(i.Minor&maxMinor)
	case syscall.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	default:
		h.Typeflag = tar.TypeReg
		if i.Content != nil {
			h.Size = i.Content.Size()
		}
	}
	for name, value := range i.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["SCHILY.xattr."+name] = value
	}
	return h
}
