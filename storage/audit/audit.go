package audit

import (
	"fmt"
	"io/fs"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrInvalid means that a store does not match its records.
var ErrInvalid = fault.New(fault.Damaged, "invalid store",
	"find out who made the store; `pinbox verify` checks the original in the same way")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Content is what a store has.
type Content struct {
	Lock pinset.Lock
	// Delta has the layers that it needs of other stores; it is the zero value if it needs none.
	Delta pinset.Delta
	// Sets are the texts of its sets, by file name.
	Sets map[string]string
	// Token identifies its records.
	Token string
	// Names of its images, with the IDs of the images.
	Names map[string]string
}

// Store checks all of a store except the contents of its layers. files is the graph root, with
// Lstat and ReadLink as in [fs.ReadLinkFS]. Memory and time are limited, whatever the store has.
func Store(files fs.FS) (Content, error) {
	a := newAuditor(files)
	lock, err := a.documents.Lock()
	if err != nil {
		return Content{}, err
	}
	return check(a, lock)
}

// Locked is Store of a store whose lock the caller has read and compared: that of 2,000 images takes 15 MB.
func Locked(files fs.FS, lock pinset.Lock) (Content, error) { return check(newAuditor(files), lock) }

func check(a *auditor, lock pinset.Lock) (Content, error) {
	a.content.Lock = lock
	if err := a.readOwn(); err != nil {
		return Content{}, err
	}
	for _, check := range []func() error{a.records, a.checkNeeds, a.checkLock, a.checkArtifacts, a.checkTree} {
		if err := check(); err != nil {
			return Content{}, err
		}
	}
	return a.content, nil
}

// Records checks that CRI-O can list the images of a store: it reads the records of layers and images, and the
// documents of the images. The content that it returns has the token, the description of a delta and the names.
func Records(files fs.FS) (c Content, err error) {
	a := newAuditor(files)
	if a.content.Token, err = a.documents.Token(); err == nil {
		a.content.Delta, err = a.documents.Delta()
	}
	if err == nil {
		err = a.records()
	}
	return a.content, err
}

// auditor checks one store.
type auditor struct {
	files     fs.FS
	documents *layout.Store
	content   Content
	// layers are the parents of the layers that the store has, by their IDs, and chains those of
	// all layers of its images.
	layers, chains map[string]string
	// order has the IDs of these layers in the order of their records, which is that of their files in an image.
	order []string
	// images are the images of the store, by their IDs.
	images map[string]image
	// bytes is how many bytes of documents may still be read.
	bytes int64
}

// image has what other checks need of an image.
type image struct {
	// keys of its documents.
	keys []string
	// digests of the manifests of the image, and of the indexes that list one of them.
	digests map[string]bool
}

func newAuditor(files fs.FS) *auditor {
	documents := layout.Open(files)
	documents.Strict = true
	return &auditor{
		files: files, documents: documents, layers: map[string]string{}, chains: map[string]string{},
		images: map[string]image{}, content: Content{Names: map[string]string{}}, bytes: layout.MaxDocumentsBytes,
	}
}

// readOwn reads the documents of pinbox.
func (a *auditor) readOwn() (err error) {
	c := &a.content
	if c.Token, err = a.documents.Token(); err == nil {
		c.Delta, err = a.documents.Delta()
	}
	if err == nil {
		c.Sets, err = a.documents.Sets()
	}
	return err
}

// records checks the records of layers and images, and the documents of the images.
func (a *auditor) records() error {
	if err := a.documents.Layers(a.layer); err != nil {
		return err
	}
	return a.documents.Images(a.image)
}

// checkNeeds checks that each layer that a record refers to is in the store or in the needs of its
// delta, and not in both. With a layer in no store, CRI-O cannot list any image.
func (a *auditor) checkNeeds() error {
	needs, thin := map[string]bool{}, a.content.Delta.Thin != nil
	if thin && len(a.layers) > 0 {
		return invalid("%s: it is a thin delta, and the store has %d layers", layout.OwnDelta, len(a.layers))
	}
	for _, n := range a.content.Delta.Needs {
		if _, own := a.layers[n.Layer]; own {
			return invalid("%s: it needs the layer %s, which it has", layout.OwnDelta, n.Layer)
		}
		if n.Link != layout.LinkName(n.Layer) {
			return invalid("%s: link %q of the layer %s: want %s", layout.OwnDelta, n.Link, n.Layer, layout.LinkName(n.Layer))
		}
		needs[n.Layer] = true
	}
	for _, parents := range []map[string]string{a.layers, a.chains} {
		for id, parent := range parents {
			if thin { // its other layers have recipes
				if needs[id] && parent != "" && !needs[parent] {
					return invalid("%s: it needs the layer %s, and not the one below", layout.OwnDelta, id)
				}
				continue
			}
			for _, layer := range []string{id, parent} {
				if _, own := a.layers[layer]; !own && layer != "" && !needs[layer] {
					return invalid("its records refer to the layer %s, not in it or its delta.json", layer)
				}
			}
		}
	}
	return nil
}

// checkLock compares the images with the lock: they have exactly the names that the lock lists, and
// the digests there are those of their manifests and indexes.
func (a *auditor) checkLock() error {
	listed := map[string]bool{}
	for _, locked := range a.content.Lock.Images {
		id := locked.Config.Encoded()
		for _, name := range append([]string{locked.Pin}, locked.Tags...) {
			if a.content.Names[name] != id {
				return invalid("the lock lists %s as a name of the image %s, whose record does not have it", name, id)
			}
			listed[name] = true
		}
		for _, d := range []string{locked.Manifest.String(), locked.Index.String()} {
			if d != "" && !a.images[id].digests[d] {
				return invalid("the lock lists %s with %s, of no manifest or index of the image %s", locked.Pin, d, id)
			}
		}
	}
	for name, id := range a.content.Names {
		if !listed[name] {
			return invalid("the image %s has the name %s, which the lock does not list", id, name)
		}
	}
	return nil
}
