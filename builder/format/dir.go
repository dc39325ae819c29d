package format

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/root"
)

// Dir is a folder that the containers/storage library writes. It can be CRI-O's main store.
const Dir Name = "dir"

// libraryDir is for the library's temporary files.
const libraryDir = ".library"

type dirFormat struct{}

func (dirFormat) Describe() Description {
	return Description{
		Name: Dir, File: layout.StoreDir,
		UnsuitableBase: "the short names of layers in a store of format dir are random, and a delta must know them; " +
			"format squashfs has predictable names",
		Writable: root.CheckPrivileges, Limitation: root.UserNamespaceWarning,
	}
}

func (dirFormat) Needs(s Sizes) Needs { return Needs{Store: s.Unpacked + s.Own} }

func (dirFormat) Open(_ context.Context, o Options) (Store, error) {
	dir := filepath.Join(o.Dir, o.Name)
	store, err := root.New(dir, filepath.Join(o.Dir, libraryDir), o.ModTime)
	if err != nil {
		return nil, err
	}
	return &folder{Store: store, dir: dir, opts: o}, nil
}

// folder is a store that the library writes.
type folder struct {
	*root.Store
	dir  string
	opts Options
}

func (d *folder) Fill(ctx context.Context, client *storage.Client, images []storage.Resolved) error {
	return client.FillGraphRoot(ctx, d.Store, images, Reading(d.opts.Hooks), d.opts.Hooks.Add)
}

func (d *folder) Add(f File) error {
	if f.Program != nil {
		return d.AddFile(f.Name, f.Perm, f.Program)
	}
	if f.Open != nil {
		content, err := f.Open()
		if err != nil {
			return err
		}
		defer content.Close()
		return d.AddFile(f.Name, f.Perm, content)
	}
	return f.addTo(d)
}

// Close also syncs the files: the library does not.
func (d *folder) Close() (artifact.Store, error) {
	if err := d.Store.Close(); err != nil {
		return artifact.Store{}, err
	}
	if err := syncFileSystem(d.dir); err != nil {
		return artifact.Store{}, err
	}
	size, err := folderSize(d.dir)
	return artifact.Store{Name: d.opts.Name, Size: size}, err
}

// Verify checks the short names of layers, which are symbolic links: the sums list regular files only.
func (dirFormat) Verify(_ context.Context, dir string, _ progress.Hooks) (store artifact.Store, err error) {
	store.Name = filepath.Base(dir)
	if store.Size, err = folderSize(dir); err != nil {
		return store, err
	}
	links, err := filepath.Glob(filepath.Join(dir, layout.OverlayDir, "*", "link"))
	if err != nil {
		return store, err
	}
	var errs []error
	for _, link := range links {
		short, err := os.ReadFile(link)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		layer := filepath.Base(filepath.Dir(link))
		name := filepath.Join(layout.LinksDir, strings.TrimSpace(string(short)))
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != filepath.Join("..", layer, "diff") {
			errs = append(errs, fmt.Errorf("%s is not a link to layer %s", filepath.Join(store.Name, name), layer))
		}
	}
	return store, errors.Join(errs...)
}

// folderSize returns the size of all regular files below dir, in bytes.
func folderSize(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err == nil {
			bytes += fi.Size()
		}
		return err
	})
	return bytes, err
}
