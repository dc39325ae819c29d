package tarball

import (
	"archive/tar"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Writer writes a tree part by part, as its parts are complete, and keeps nothing of what it
// has written. Its methods are called from one goroutine.
type Writer struct {
	tar      *tar.Writer
	unpacker *squashfs.Unpacker
	sources  []io.Closer
	written  map[string]bool            // directories above what was written
	first    map[*squashfs.Inode]string // of the tree that is being written: files with several names
}

// NewWriter starts a tar stream of the contents of the compressor's packs. The caller ends
// it with Close or Abort.
func NewWriter(out io.Writer, compressor *squashfs.Compressor) *Writer {
	return &Writer{tar: tar.NewWriter(out), unpacker: compressor.NewUnpacker(), written: map[string]bool{}}
}

// AddPack adds a pack, of which trees have their contents. Its file is the writer's
// from here on, and may be that of several packs.
func (w *Writer) AddPack(p *squashfs.Pack) { w.sources = append(w.sources, p.File()) }

// Abort gives up the stream, and closes the packs that it took; twice does no harm.
func (w *Writer) Abort() {
	for _, s := range w.sources {
		_ = s.Close() // only read
	}
}

// WriteTree writes a directory and the tree below it, behind the directories above, and
// forgets the tree. Other names of its files must not stand outside of it. A pack
// that changed since it was written is a *squashfs.Damage.
func (w *Writer) WriteTree(dir *squashfs.Inode) error {
	if err := w.above(dir); err != nil {
		return err
	}
	w.first = severalNames(dir)
	defer func() { w.first = nil }()
	name := dir.Path()
	if err := w.tree(name, dir); err != nil {
		return err
	}
	w.written[name] = true
	clear(dir.Entries())
	return nil
}

// Close writes what is left of the tree below root, and the end.
func (w *Writer) Close(root *squashfs.Inode) error {
	defer w.Abort()
	if err := w.WriteTree(root); err != nil {
		return err
	}
	return w.tar.Close()
}

// above writes the directories above dir that are not written.
func (w *Writer) above(dir *squashfs.Inode) error {
	parent := dir.Parent()
	if parent == nil || w.written[parent.Path()] {
		return nil
	}
	if err := w.above(parent); err != nil {
		return err
	}
	name := parent.Path()
	w.written[name] = true
	return w.entry(name, parent)
}

// severalNames finds the files of a tree that have more names than one.
func severalNames(dir *squashfs.Inode) map[*squashfs.Inode]string {
	seen, several := map[*squashfs.Inode]struct{}{}, map[*squashfs.Inode]string{}
	var walk func(*squashfs.Inode)
	walk = func(i *squashfs.Inode) {
		if _, again := seen[i]; again {
			several[i] = ""
		}
		seen[i] = struct{}{}
		for _, child := range i.Entries() {
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
	for _, base := range slices.Sorted(maps.Keys(i.Entries())) {
		if err := w.tree(path.Join(name, base), i.Entry(base)); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one file.
func (w *Writer) entry(name string, i *squashfs.Inode) error {
	h := header(name, i)
	if first, several := w.first[i]; several {
		if first != "" {
			// With all attributes of the first: who sets the owner of a link takes the
			// file's capabilities away.
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

// What a device number of Linux has room for: MINORBITS of include/linux/kdev_t.h.
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
