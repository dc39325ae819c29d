package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// ErrNoImage means that no store has an image, or a layer of it.
var ErrNoImage = errors.New("no store on this node has it whole")

// Copy writes the images, out of the stores at these graph roots, into the main store at graphRoot. What is there
// already is not written again, so Copy continues what another process has begun.
func Copy(ctx context.Context, graphRoot string, roots []string, images []pinset.Image) (err error) {
	from := records{layers: map[string]stored[layout.Layer]{}, images: map[string]stored[layout.Image]{}}
	defer func() { err = errors.Join(err, from.close()) }()
	for _, dir := range roots {
		if err := from.open(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := from.addLayers(os.DirFS(graphRoot)); err != nil { // their files are not read
		return fmt.Errorf("%s: %w", graphRoot, err)
	}
	to, err := root.OpenMain(graphRoot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	for _, img := range images {
		if err := from.copy(ctx, to, img.String()); err != nil {
			return fmt.Errorf("%s: %w", img, err)
		}
	}
	return nil
}

// stored is a record, and the graph root of the store that has it.
type stored[T any] struct {
	record T
	files  fs.FS
}

// records are those of the images, by their names, and of the layers, by their IDs.
type records struct {
	opened []stores.FS
	layers map[string]stored[layout.Layer]
	images map[string]stored[layout.Image]
}

// open reads the records of a read-only store. A folder without a store has none.
func (r *records) open(dir string) error {
	files, err := stores.OpenRoot(dir)
	if err != nil {
		return err
	}
	r.opened = append(r.opened, files)
	err = layout.Open(files).Images(func(i layout.Image) error {
		for _, name := range i.Names {
			r.images[name] = stored[layout.Image]{i, files}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, r.addLayers(files))
}

func (r *records) addLayers(files fs.FS) error {
	err := layout.Open(files).Layers(func(l layout.Layer) error {
		if _, ok := r.layers[l.ID]; !ok {
			r.layers[l.ID] = stored[layout.Layer]{l, files}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *records) close() error {
	var errs []error
	for _, files := range r.opened {
		errs = append(errs, files.Close())
	}
	return errors.Join(errs...)
}

// copy writes the layers of an image, the lowest first, and then its record.
func (r *records) copy(ctx context.Context, to *root.MainStore, name string) error {
	img, ok := r.images[name]
	if !ok {
		return ErrNoImage
	}
	var chain []stored[layout.Layer]
	for id := img.record.TopLayer; id != ""; {
		l, ok := r.layers[id]
		if !ok || len(chain) > len(r.layers) {
			return fmt.Errorf("layer %s: %w", id, ErrNoImage)
		}
		chain = append(chain, l)
		id = l.record.Parent
	}
	for _, l := range slices.Backward(chain) {
		if err := to.PutLayer(ctx, l.record, l.files); err != nil {
			return fmt.Errorf("layer %s: %w", l.record.ID, err)
		}
	}
	return to.PutImage(img.record, img.files)
}
