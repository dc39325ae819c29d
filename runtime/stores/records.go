package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/layout"
)

// record is what matters here of a layer.
type record struct{ ID, Parent string }

// named is what matters here of an image or a container.
type named struct {
	ID    string
	Names []string
	// Layer of a container, or the top one of an image.
	Layer string
	// Image of a container.
	Image string
}

func (n named) title() string {
	if len(n.Names) > 0 {
		return n.Names[0]
	}
	return n.ID[:min(12, len(n.ID))]
}

// records are those of a store.
type records struct {
	layers             []record
	images, containers []named
}

// readRecords reads what there is: a store without a document has no such records.
func readRecords(store fs.FS) (r records, err error) {
	documents := layout.Open(store)
	err = errors.Join(
		ifThere(documents.Layers(func(l layout.Layer) error {
			r.layers = append(r.layers, record{l.ID, l.Parent})
			return nil
		})),
		ifThere(documents.Images(func(i layout.Image) error {
			r.images = append(r.images, named{ID: i.ID, Names: i.Names, Layer: i.TopLayer})
			return nil
		})),
		ifThere(documents.Containers(func(c layout.Container) error {
			r.containers = append(r.containers, named{ID: c.ID, Names: c.Names, Layer: c.Layer, Image: c.Image})
			return nil
		})))
	return r, err
}

func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// layer says whether the store has one.
func (r records) layer(id string) bool {
	return slices.ContainsFunc(r.layers, func(l record) bool { return l.ID == id })
}

// readMain reads the records of CRI-O's own store. One that is not there, perhaps since
// its disk is not, is not one that uses nothing.
func readMain(root string) (records, error) {
	_, err := os.Stat(filepath.Join(root, layout.LayersDir))
	var r records
	if err == nil {
		r, err = readRecords(os.DirFS(root))
	}
	if err != nil {
		return records{}, fmt.Errorf("CRI-O's own store %s: %w", root, err)
	}
	return r, nil
}
