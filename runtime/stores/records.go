package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// record has the fields of a layer's record that matter here.
type record struct{ ID, Parent string }

// named has the fields of the record of an image or a container that matter here.
type named struct {
	ID    string
	Names []string
	// Layer is the layer of a container, or the top layer of an image.
	Layer string
	// Image is the ID of a container's image.
	Image string
}

func (n named) title() string {
	if len(n.Names) > 0 {
		return n.Names[0]
	}
	return n.ID[:min(12, len(n.ID))]
}

// records are the records of a store.
type records struct {
	layers             []record
	images, containers []named
}

// readRecords reads the records of a store. A file that is missing has no records.
func readRecords(store fs.FS) (r records, err error) {
	documents := layout.Open(store)
	err = errors.Join(
		fault.Ignore(documents.Layers(func(l layout.Layer) error {
			r.layers = append(r.layers, record{l.ID, l.Parent})
			return nil
		}), fs.ErrNotExist),
		fault.Ignore(documents.Images(func(i layout.Image) error {
			r.images = append(r.images, named{ID: i.ID, Names: i.Names, Layer: i.TopLayer})
			return nil
		}), fs.ErrNotExist),
		fault.Ignore(r.addArtifacts(documents), fs.ErrNotExist),
		fault.Ignore(documents.Containers(func(c layout.Container) error {
			r.containers = append(r.containers, named{ID: c.ID, Names: c.Names, Layer: c.Layer, Image: c.Image})
			return nil
		}), fs.ErrNotExist))
	return r, err
}

// addArtifacts adds the OCI artifacts as images without layers.
func (r *records) addArtifacts(documents *layout.Store) error {
	all, err := documents.Artifacts()
	for _, a := range all {
		r.images = append(r.images, named{ID: a.Manifest.Encoded(), Names: []string{a.Name}})
	}
	return err
}

// layer reports whether the store has a layer.
func (r records) layer(id string) bool {
	return slices.ContainsFunc(r.layers, func(l record) bool { return l.ID == id })
}

// readMain reads the records of CRI-O's main store at all its graph roots. If one is missing, perhaps
// because its disk is not mounted, that is an error: then it is unknown what it uses.
func (u usage) readMain(graphRoots []string) (all records, err error) {
	for n, root := range slices.Concat(graphRoots, u.runRoots) {
		var r records
		if n < len(graphRoots) {
			_, err = os.Stat(filepath.Join(root, layout.LayersDir))
		}
		if err == nil {
			r, err = readRecords(os.DirFS(root))
		}
		if err != nil {
			return records{}, fmt.Errorf("CRI-O's main store %s: %w", root, err)
		}
		all.layers = append(all.layers, r.layers...)
		all.images = append(all.images, r.images...)
		all.containers = append(all.containers, r.containers...)
	}
	return all, nil
}
