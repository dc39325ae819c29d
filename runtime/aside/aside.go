package aside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// ErrLayersGone means that CRI-O lists no image, since the record of one of its own stands on layers of a store that is
// not there.
var ErrLayersGone = fault.New(fault.Other, "an image in CRI-O's own store needs a store that is not there",
	"attach that store again; or restart CRI-O: before it starts, `pinbox-node mount` sets such images aside")

// Records are those that are set aside on a node.
type Records struct {
	// Dir is the folder of their file.
	Dir string
	// Main are the graph roots of CRI-O's own store, and Others its additional image stores.
	Main, Others []string
	// Wait is how long to wait for another process that sets aside or puts back.
	Wait time.Duration
}

// version is that of the format of the file.
const version = 1

// document is the content of the file: what is set aside of CRI-O's own store, by its graph roots.
type document struct {
	Version int                   `json:"version"`
	Stores  map[string]root.Aside `json:"stores"`
}

func (r Records) file() string { return filepath.Join(r.Dir, "aside.json") }

// read reads the file. Without it, nothing is set aside.
func (r Records) read() (d document, err error) {
	content, err := input.Read(r.file())
	if err == nil {
		err = pinset.Decode(bytes.NewReader(content), version, &d)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", r.file(), err)
	}
	if d.Stores == nil {
		d.Stores = map[string]root.Aside{}
	}
	return d, err
}

// write writes the file, or removes it if nothing is set aside.
func (r Records) write(d document) error {
	empty := true
	for _, s := range d.Stores {
		empty = empty && s.IsEmpty()
	}
	if empty {
		return fault.Ignore(os.Remove(r.file()), fs.ErrNotExist)
	}
	d.Version = version
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	folder, err := os.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	_, err = atomicfile.WriteIn(folder, filepath.Base(r.file()), append(content, '\n'), 0o600)
	return err
}

// Images returns the images of CRI-O's own store that are set aside.
func (r Records) Images() (all []pinset.StoredImage, err error) {
	d, err := r.read()
	for _, s := range d.Stores {
		for _, i := range s.Describe() {
			all = append(all, pinset.StoredImage{ID: i.ID, Names: i.Names})
		}
	}
	return all, err
}

// Broken returns an ErrLayersGone with an image of the store at graphRoot for which CRI-O can list none; nil if there
// is none.
func (r Records) Broken(graphRoot string) error {
	has, err := r.layers()
	if err != nil {
		return err
	}
	images, err := root.Broken(graphRoot, has)
	if err != nil || len(images) == 0 {
		return err
	}
	name := append(images[0].Names, "without a name, "+images[0].ID)[0]
	return fmt.Errorf("%w: %s of %s and %d more: the layer %s is in no store", ErrLayersGone, name, graphRoot,
		len(images)-1, images[0].Missing)
}

// Mend sets aside what stands on missing layers in CRI-O's own store, if CRI-O starts only then, and puts back what
// was set aside and is complete again. While CRI-O runs, it leaves both to another process that does so.
func (r Records) Mend(ctx context.Context, starts bool) error {
	if due, err := r.due(starts); err != nil || !due {
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	lock := filepath.Join(r.Dir, ".aside.lock")
	release, err := filelock.Lock(ctx, lock, 0o600, filelock.Options{Wait: r.Wait})
	if errors.Is(err, filelock.ErrLocked) && !starts {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", lock, err)
	}
	defer release()
	d, err := r.read()
	if err != nil {
		return err
	}
	has, err := r.layers()
	if err != nil {
		return err
	}
	var errs []error
	for _, graphRoot := range r.Main {
		keep := func(now root.Aside) error {
			d.Stores[graphRoot] = now
			return r.write(d)
		}
		if starts {
			errs = append(errs, root.SetAside(ctx, graphRoot, has, d.Stores[graphRoot], keep))
		}
		left, changed, err := root.PutBack(ctx, graphRoot, has, r.linked, d.Stores[graphRoot])
		if err == nil && changed {
			err = keep(left)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// due reports whether something is set aside, or has to be.
func (r Records) due(starts bool) (due bool, err error) {
	if d, err := r.read(); err != nil || len(d.Stores) > 0 || !starts {
		return len(d.Stores) > 0, err
	}
	has, err := r.layers()
	for _, graphRoot := range r.Main {
		if err != nil || due {
			return due, err
		}
		due, err = root.IsBroken(graphRoot, has)
	}
	return due, err
}

// layers returns whether one of the other stores has a layer.
func (r Records) layers() (has func(layer string) bool, err error) {
	found := map[string]bool{}
	for _, store := range r.Others {
		err := layout.Open(os.DirFS(store)).Layers(func(l layout.Layer) error {
			found[l.ID] = true
			return nil
		})
		if fault.Ignore(err, fs.ErrNotExist) != nil {
			return nil, fmt.Errorf("%s: %w", store, err)
		}
	}
	return func(layer string) bool { return found[layer] }, nil
}

// linked reports whether one of the other stores has a link name of a layer.
func (r Records) linked(link string) bool {
	for _, store := range r.Others {
		if _, err := os.Lstat(filepath.Join(store, "overlay/l", link)); err == nil {
			return true
		}
	}
	return false
}
