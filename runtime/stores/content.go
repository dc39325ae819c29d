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

// ErrNotStore says that a file holds no store of pinbox.
var ErrNotStore = errors.New("is no store that pinbox made")

// content is what a store says of itself.
type content struct {
	Lock pinset.Lock
	// Delta says what it needs of other stores; a full one needs nothing.
	Delta pinset.Delta
	// Sets are files, by their names.
	Sets map[string]string
	// Token tells its records from those of other stores.
	Token string
}

// examine reads what a store says of itself, and checks that CRI-O could list it.
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

// printable is a name as a terminal may show it.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
}

// token tells the records of a store from those of another.
func token(store fs.FS) (string, error) { return layout.Open(store).Token() }

// readDelta gives the description of a delta, an empty one of a full store.
func readDelta(store fs.FS) (pinset.Delta, error) {
	d, err := layout.Open(store).Delta()
	return d, notStore(err)
}

// readSets gives the store's sets; there need not be any.
func readSets(store fs.FS) (map[string]string, error) {
	sets, err := layout.Open(store).Sets()
	return sets, notStore(err)
}

// checkDependencies says why CRI-O could not list the images of a store, and so none of any
// other: its records are no files, or refer to layers that it neither has nor says it needs.
func (c content) checkDependencies(store fs.FS) error {
	known := map[string]bool{"": true}
	for _, n := range c.Delta.Needs {
		known[n.Layer] = true
	}
	var on []string
	documents := layout.Open(store)
	err := errors.Join(
		documents.Layers(func(l layout.Layer) error {
			known[l.ID], on = true, append(on, l.Parent)
			return nil
		}),
		documents.Images(func(i layout.Image) error {
			on = append(on, i.TopLayer)
			return nil
		}))
	if err != nil {
		return notStore(err)
	}
	for _, layer := range on {
		if !known[layer] {
			return fmt.Errorf("%w: it stands on the layer %s, and does not say that it needs it", ErrNotStore, layer)
		}
	}
	return nil
}

// readable says why CRI-O could not list what is in a store.
func readable(store fs.FS) error {
	documents := layout.Open(store)
	return errors.Join(
		documents.Layers(func(layout.Layer) error { return nil }),
		documents.Images(func(layout.Image) error { return nil }))
}
