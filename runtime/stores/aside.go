package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// ErrLayersGone means that CRI-O lists no image, since the record of one of its own stands on layers of a store that is
// not there.
var ErrLayersGone = fault.New(fault.Other, "an image in CRI-O's own store needs a store that is not there",
	"attach that store again; or restart CRI-O: before it starts, `pinbox-node mount` sets such images aside")

// asideVersion is the version of the format of aside.json.
const asideVersion = 1

// asideRecords is the content of aside.json: what was set aside of CRI-O's main store, by its graph roots.
type asideRecords struct {
	Version int                   `json:"version"`
	Stores  map[string]root.Aside `json:"stores"`
}

func asideFile(dir string) string { return filepath.Join(dir, "aside.json") }

// readAside reads the file in a folder. Without it, nothing is set aside.
func readAside(dir string) (a asideRecords, err error) {
	content, err := os.ReadFile(asideFile(dir))
	if err == nil {
		err = pinset.Decode(bytes.NewReader(content), asideVersion, &a)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", asideFile(dir), err)
	}
	if a.Stores == nil {
		a.Stores = map[string]root.Aside{}
	}
	return a, err
}

// write writes the file, or removes it if nothing is set aside.
func (a asideRecords) write(dir string) error {
	empty := true
	for _, s := range a.Stores {
		empty = empty && s.IsEmpty()
	}
	if empty {
		return ignoreNotExist(os.Remove(asideFile(dir)))
	}
	a.Version = asideVersion
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	_, err = atomicfile.WriteIn(folder, filepath.Base(asideFile(dir)), append(content, '\n'), 0o600)
	return err
}

// SetAside are the names of the images of CRI-O's main store that are set aside.
func SetAside(dir string) (all []pinset.StoredImage, err error) {
	a, err := readAside(dir)
	for _, s := range a.Stores {
		for _, i := range s.Describe() {
			all = append(all, pinset.StoredImage{ID: i.ID, Names: i.Names})
		}
	}
	return all, err
}

// others are stores besides CRI-O's main store.
type others []string

// layers returns whether one of them has a layer.
func (o others) layers() (has func(layer string) bool, err error) {
	found := map[string]bool{}
	for _, store := range o {
		err := layout.Open(os.DirFS(store)).Layers(func(l layout.Layer) error {
			found[l.ID] = true
			return nil
		})
		if ignoreNotExist(err) != nil {
			return nil, fmt.Errorf("%s: %w", store, err)
		}
	}
	return func(layer string) bool { return found[layer] }, nil
}

// linked reports whether one of them has a link name of a layer.
func (o others) linked(link string) bool {
	for _, store := range o {
		if _, err := os.Lstat(filepath.Join(store, "overlay/l", link)); err == nil {
			return true
		}
	}
	return false
}

// mendMain sets aside what stands on missing layers in CRI-O's main store, if CRI-O starts only then, and puts back what was
// set aside and is complete again. While another pinbox-node does so, it does nothing.
func (m Manager) mendMain(ctx context.Context, starts bool) error {
	if m.ConfigError != nil {
		return nil // it is unknown which stores CRI-O has
	}
	stores := append(others(m.OtherStores), m.Configured...)
	if due, err := m.mendDue(stores, starts); err != nil || !due {
		return err
	}
	release, err := m.lock(ctx, asideLock)
	if errors.Is(err, ErrBusy) && !starts {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	aside, err := readAside(m.Dir)
	if err != nil {
		return err
	}
	has, err := stores.layers()
	if err != nil {
		return err
	}
	var errs []error
	for _, graphRoot := range m.MainStores {
		keep := func(now root.Aside) error {
			aside.Stores[graphRoot] = now
			return aside.write(m.Dir)
		}
		if starts {
			errs = append(errs, root.SetAside(ctx, graphRoot, has, aside.Stores[graphRoot], keep))
		}
		left, changed, err := root.PutBack(ctx, graphRoot, has, stores.linked, aside.Stores[graphRoot])
		if err == nil && changed {
			err = keep(left)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mendDue reports whether something is set aside, or has to be.
func (m Manager) mendDue(stores others, starts bool) (due bool, err error) {
	if aside, err := readAside(m.Dir); err != nil || len(aside.Stores) > 0 || !starts {
		return len(aside.Stores) > 0, err
	}
	has, err := stores.layers()
	for _, graphRoot := range m.MainStores {
		if err != nil || due {
			return due, err
		}
		due, err = root.IsBroken(graphRoot, has)
	}
	return due, err
}
