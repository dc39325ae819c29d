package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNotStore means that a file is not a store, or one whose documents are invalid.
var ErrNotStore = errors.New("not a store made by pinbox")

// content is what a store's own documents contain.
type content struct {
	Lock pinset.Lock
	// Delta has the layers that it needs of other stores; it is empty if it needs none.
	Delta pinset.Delta
	// Sets are the texts of its sets, by file name.
	Sets map[string]string
	// Token identifies its records.
	Token string
}

// examine reads the documents of a store, and checks that CRI-O can list its images.
func examine(store fs.FS) (content, error) {
	c, err := readContent(store)
	if err == nil {
		err = c.checkDependencies(store)
	}
	return c, err
}

func readContent(store fs.FS) (c content, err error) {
	documents := layout.Open(store)
	if c.Token, err = documents.Token(); err == nil {
		c.Lock, err = documents.Lock()
	}
	if err == nil {
		c.Delta, err = documents.Delta()
	}
	if err == nil {
		c.Sets, err = documents.Sets()
	}
	c.Delta.Name = printable(c.Delta.Name)
	return c, notStore(err)
}

func notStore(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotStore, err)
}

// printable replaces characters that a terminal may interpret.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
}

// token identifies the records of a store.
func token(store fs.FS) (string, error) { return layout.Open(store).Token() }

// readDelta reads a store's delta.json; a full store has none, and the result is empty.
func readDelta(store fs.FS) (pinset.Delta, error) {
	d, err := layout.Open(store).Delta()
	return d, notStore(err)
}

// readSets reads the sets of a store, by file name. A store may have none.
func readSets(store fs.FS) (map[string]string, error) {
	sets, err := layout.Open(store).Sets()
	return sets, notStore(err)
}

// checkDependencies checks that every layer that the records refer to is in the store or in
// Delta.Needs. With a missing layer, CRI-O cannot list any image, of this store or another.
func (c content) checkDependencies(store fs.FS) error {
	known := map[string]bool{"": true}
	for _, n := range c.Delta.Needs {
		known[n.Layer] = true
	}
	var required []string
	documents := layout.Open(store)
	err := errors.Join(
		documents.Layers(func(l layout.Layer) error {
			known[l.ID], required = true, append(required, l.Parent)
			return nil
		}),
		documents.Images(func(i layout.Image) error {
			required = append(required, i.TopLayer)
			return nil
		}))
	if err != nil {
		return notStore(err)
	}
	for _, layer := range required {
		if !known[layer] {
			return fmt.Errorf("%w: its records refer to the layer %s, not in it or its delta.json", ErrNotStore, layer)
		}
	}
	return nil
}

// checkRecords returns why CRI-O cannot list the images of a store.
func checkRecords(store fs.FS) error {
	documents := layout.Open(store)
	return errors.Join(
		documents.Layers(func(layout.Layer) error { return nil }),
		documents.Images(func(layout.Image) error { return nil }))
}
