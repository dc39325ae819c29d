package sbom

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pinbox/pinbox/storage/layout"
)

// archive is an index of a store of format tar. It has only the files that an inventory is made of.
type archive struct {
	file    *os.File
	entries map[string]archived
	// lists are the entries of the folders that are listed.
	lists map[string][]fs.DirEntry
	// wanted are the names that are indexed, below a layer or of the store.
	wanted map[string]bool
}

// archived is an entry. link is the other name of a hard link.
type archived struct {
	fs.FileInfo
	offset int64 // bytes
	opaque bool
	link   string
}

// readTar reads the headers of a store. A hard link may be to a file that is not of interest itself, whose name comes
// first: then it reads them twice.
func readTar(ctx context.Context, file *os.File) (*archive, error) {
	a := &archive{file: file, wanted: wantedNames()}
	if err := a.index(ctx); err != nil {
		return nil, err
	}
	again := false
	for _, e := range a.entries {
		if _, ok := a.entries[e.link]; e.link != "" && !ok {
			a.wanted[e.link], again = true, true
		}
	}
	if again {
		return a, a.index(ctx)
	}
	return a, nil
}

func wantedNames() map[string]bool {
	wanted := map[string]bool{layout.OwnLock: true, layout.ImagesFile: true, ".": true}
	add := func(name string) {
		for ; name != "."; name = path.Dir(name) {
			wanted[name] = true
		}
	}
	for _, kind := range kinds {
		for _, name := range append(kind.files, releaseFiles...) {
			add(name)
		}
		add(path.Clean(kind.folder))
	}
	return wanted
}

// isWanted reports whether an entry is indexed, and in which folder it is listed.
func (a *archive) isWanted(name string) (wanted bool, dir string) {
	if a.wanted[name] {
		return true, ""
	}
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 3 || parts[0] != layout.OverlayDir || parts[2] != "diff" {
		return false, ""
	}
	below := "."
	if len(parts) == 4 {
		below = parts[3]
	}
	for _, kind := range kinds {
		if kind.folder != "" && path.Dir(below) == kind.folder {
			return true, path.Dir(name)
		}
	}
	return a.wanted[below], ""
}

func (a *archive) index(ctx context.Context) error {
	a.entries, a.lists = map[string]archived{}, map[string][]fs.DirEntry{}
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for r := tar.NewReader(a.file); ctx.Err() == nil; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		wanted, dir := a.isWanted(name)
		if !wanted {
			continue
		}
		e := archived{FileInfo: h.FileInfo(), opaque: h.PAXRecords["SCHILY.xattr."+opaque] == "y"}
		if h.Typeflag == tar.TypeLink {
			e.link = path.Clean(h.Linkname)
		}
		if e.offset, err = a.file.Seek(0, io.SeekCurrent); err != nil { // the reader reads no further than a header
			return err
		}
		a.entries[name] = e
		if dir != "" {
			a.lists[dir] = append(a.lists[dir], fs.FileInfoToDirEntry(e))
		}
	}
	return ctx.Err()
}

// find finds an entry; that of a hard link is the one of its file.
func (a *archive) find(op, name string) (archived, error) {
	e, ok := a.entries[name]
	if ok && e.link != "" {
		e, ok = a.entries[e.link]
	}
	if !ok {
		return e, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return e, nil
}

func (a *archive) Lstat(name string) (fs.FileInfo, error) { return a.find("lstat", name) }

func (a *archive) ReadDir(name string) ([]fs.DirEntry, error) { return a.lists[name], nil }

func (a *archive) Xattrs(name string) (map[string]string, error) {
	if e, err := a.find("listxattr", name); err != nil || !e.opaque {
		return nil, err
	}
	return map[string]string{opaque: "y"}, nil
}

func (a *archive) Open(name string) (fs.File, error) {
	e, err := a.find("open", name)
	if err == nil && !e.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return nil, err
	}
	return archivedFile{io.NewSectionReader(a.file, e.offset, e.Size()), e}, nil
}

// archivedFile is an open file.
type archivedFile struct {
	*io.SectionReader
	info fs.FileInfo
}

func (f archivedFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f archivedFile) Close() error { return nil }
