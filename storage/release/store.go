package release

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/verity"
)

// Store is the squashfs image of a store: a file, a device, or a part of one.
type Store struct {
	// Name of the release, for errors.
	Name string
	// Path is that of the file or the device, in which the image has an offset and a size in bytes.
	Path         string
	Offset, Size int64

	file storeFile
}

type storeFile interface {
	io.ReaderAt
	io.Closer
}

// NewStore returns the store at the start of a file, which the caller closes with it.
func NewStore(name, path string, file *os.File, size int64) *Store {
	return &Store{Name: name, Path: path, Size: size, file: file}
}

// Close closes the file of NewStore. Others are closed with their release.
func (s *Store) Close() error { return s.file.Close() }

// Bytes reads the image, in several goroutines.
func (s *Store) Bytes() *io.SectionReader { return io.NewSectionReader(s.file, s.Offset, s.Size) }

// Files opens the image, for one goroutine.
func (s *Store) Files() (*squashfs.Reader, error) {
	files, err := squashfs.OpenImage(s.Bytes(), s.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: store: %w", s.Name, err)
	}
	return files, nil
}

// StoreIn returns the name of the store in a folder with these sums; "" if there is none.
func StoreIn(sums layout.Sums) string {
	for _, name := range layout.AttachableStores() {
		if sums[name] != "" {
			return name
		}
	}
	if sums[path.Join(layout.StoreDir, layout.ImagesFile)] != "" {
		return layout.StoreDir
	}
	return ""
}

// storeName returns the name of the store in a folder, without sums by the files; "" if there is none.
func (r *Release) storeName() string {
	if r.noSums == nil {
		return StoreIn(r.sums)
	}
	for _, name := range append(layout.AttachableStores(), layout.StoreDir) {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			return name
		}
	}
	return ""
}

// Store returns the store, if it is a squashfs that can be read in place; nil if there is none, if it is a folder, or
// if it is in parts.
func (r *Release) Store() (*Store, error) {
	if r.store != nil {
		return r.store, nil
	}
	s := &Store{Name: r.Name}
	var err error
	switch r.Form {
	case Folder:
		if slices.Contains(layout.AttachableStores(), r.Names.Store) {
			s.Path = filepath.Join(r.dir, r.Names.Store)
		}
	case Mounted:
		s.Path, err = mountedDevice(r.dir)
	case Medium:
		var f iso9660.File
		f, err = r.Image.Find(path.Join(r.dir, r.Names.Store))
		switch {
		case IsMissing(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		case f.Contiguous():
			s.Path, s.Offset, s.Size, s.file = r.Name, f.Offset(), f.Size, r.file
		}
	}
	if err != nil || s.Path == "" {
		return nil, err
	}
	if s.file == nil {
		f, err := input.Medium(s.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		s.file, r.opened = f, append(r.opened, f)
		if s.Size, err = f.Seek(0, io.SeekEnd); err != nil { // Stat gives no size of a device
			return nil, fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	r.store = s
	return s, nil
}

// Whole is Store, and also reads what nobody mounts in place: a store in parts, which has no path then, and a file that
// is a store with nothing beside it.
func (r *Release) Whole() (*Store, error) {
	s, err := r.Store()
	if s != nil || err != nil {
		return s, err
	}
	switch {
	case r.InParts():
		parts, err := r.StoreBytes()
		if err != nil {
			return nil, err
		}
		s = &Store{Name: r.Name, Size: parts.Size}
		s.file, _ = parts.ReadCloser.(storeFile) // layout.Join has it
	case r.Form == LockOnly:
		f, err := input.Open(r.Name)
		if err != nil {
			return nil, err
		}
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil || squashfs.Used(f) == 0 {
			return nil, errors.Join(err, f.Close())
		}
		s = NewStore(r.Name, r.Name, f, size)
	default:
		return nil, nil
	}
	r.opened, r.store = append(r.opened, s), s
	return s, nil
}

// Files returns the files of the store, if it can be read in place: of a squashfs or of a folder; nil if it cannot.
func (r *Release) Files() (fs.FS, error) {
	store, err := r.Store()
	if err != nil {
		return nil, err
	}
	if store != nil {
		files, err := store.Files()
		if err != nil {
			return nil, err // files is a nil *Reader, which is not a nil fs.FS
		}
		return files, nil
	}
	if r.Form != Folder || r.Names.Store != layout.StoreDir {
		return nil, nil
	}
	root, err := os.OpenRoot(filepath.Join(r.dir, r.Names.Store))
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, root)
	return root.FS(), nil
}

// Short says what the file of the store lacks, by its superblock and, where the sums have its root hash, with the hash
// tree; "" for nothing, or if nothing is known. It reads no contents.
func (r *Release) Short() (string, error) {
	s, err := r.Store()
	if err != nil || s == nil || r.Form == Mounted { // a device may end before the tree
		return "", err
	}
	want := squashfs.Used(s.Bytes())
	if want > 0 && r.sums[r.Names.RootHash] != "" {
		want = verity.Size(want)
	}
	short := fmt.Sprintf("is incomplete, with %d bytes of %d", s.Size, want)
	switch {
	case s.Size == 0:
		short = "is empty"
	case s.Size >= want:
		return "", nil
	}
	return fmt.Sprintf("%s: %s %s: copy it again, and check it with `pinbox verify`", r.Name, r.Names.Store, short), nil
}

// Delta returns the description of a delta in its store; zero for anything else.
func (r *Release) Delta() (d pinset.Delta, err error) {
	files, err := r.Files()
	if err != nil || files == nil {
		return d, err
	}
	if d, err = layout.Open(files).Delta(); err != nil {
		return d, fmt.Errorf("%s: %w", r.Name, err)
	}
	return d, nil
}

// InParts reports whether a folder has its store in parts.
func (r *Release) InParts() bool {
	if r.Form != Folder || r.Names.Store == "" {
		return false
	}
	entries, _ := os.ReadDir(r.dir) // who reads the files reports a failure
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		whole, is := layout.CutPart(e.Name())
		return is && whole == r.Names.Store
	})
}

// StoreBytes opens the store to read its bytes once, of parts as one file.
func (r *Release) StoreBytes() (Document, error) {
	if !r.InParts() {
		return r.Open(r.Names.Store)
	}
	whole, err := layout.Join(r.Names.Store, func(name string) (layout.Part, error) {
		part, err := r.Open(name)
		return layout.Part(part), err
	})
	return Document(whole), err
}

// mountedDevice returns the device that is mounted at a folder; "" if none is: proc_pid_mountinfo(5).
func mountedDevice(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	device := ""
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		after := slices.Index(fields, "-")
		if after > 4 && len(fields) > after+2 && fields[4] == dir && fields[after+1] == "squashfs" {
			device = fields[after+2]
		}
	}
	return device, nil
}
