package stores

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNotStore means that a file is not a store, or one that is not what its records say.
var ErrNotStore = fault.New(fault.Input, "not a store made by pinbox",
	"name the output of `pinbox delta` or `pinbox build`")

// content is what a store's own documents contain.
type content = audit.Content

// examine checks a store that is not mounted: that it is what its records say, and that CRI-O can
// list its images.
func examine(store fs.FS) (content, error) {
	c, err := audit.Store(store)
	return c, notStore(err)
}

// readContent reads the documents of pinbox in a store that was examined.
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
	return c, notStore(err)
}

func notStore(err error) error {
	if err == nil || pinset.OtherVersion(err) { // that is a store
		return err
	}
	if errors.Is(err, audit.ErrInvalid) { // it is one, and somebody has changed it
		return fmt.Errorf("%w: %w", ErrNotStore, err)
	}
	return fault.Wrap(ErrNotStore, err)
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
