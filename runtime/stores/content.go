package stores

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/opencontainers/go-digest"

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

// maxDocument bounds a document that is read into memory, in bytes: the lock of a
// release of OpenShift has less than a tenth of it.
const maxDocument = 64 << 20

func readContent(store fs.FS) (c content, err error) {
	if c.Token, err = token(store); err != nil {
		return c, fmt.Errorf("%w: %w", ErrNotStore, err)
	}
	lock, err := document(store, lockPath)
	if err == nil {
		c.Lock, err = pinset.DecodeLock(bytes.NewReader(lock))
	}
	if err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrNotStore, lockPath, err)
	}
	if c.Delta, err = readDelta(store); err != nil {
		return c, err
	}
	c.Delta.Name = printable(c.Delta.Name)
	c.Sets, err = readSets(store)
	return c, err
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

// Where a store keeps what it says of itself: builder/line.go.
const (
	lockPath  = "pinbox/pinbox.lock.json"
	deltaPath = "pinbox/delta.json"
	setsPath  = "pinbox/sets"
)

// token is what the lock files of a store hold, which is made of its records: see
// records in storage/compose.
func token(store fs.FS) (string, error) {
	images, err := document(store, "overlay-images/images.lock")
	if err != nil {
		return "", err
	}
	layers, err := document(store, "overlay-layers/layers.lock")
	if err != nil {
		return "", err
	}
	return digest.FromBytes(append(images, layers...)).Encoded(), nil
}

// readDelta gives the description of a delta, an empty one of a full store.
func readDelta(store fs.FS) (pinset.Delta, error) {
	text, err := document(store, deltaPath)
	if errors.Is(err, fs.ErrNotExist) {
		return pinset.Delta{}, nil
	}
	var d pinset.Delta
	if err == nil {
		d, err = pinset.DecodeDelta(bytes.NewReader(text))
	}
	for _, n := range d.Needs { // which become paths
		if err == nil && (!filepath.IsLocal(n.Layer) || strings.Contains(n.Layer, "/")) {
			err = fmt.Errorf("%w: layer %q", pinset.ErrBadDelta, n.Layer)
		}
	}
	if err != nil {
		return pinset.Delta{}, fmt.Errorf("%w: %s: %w", ErrNotStore, deltaPath, err)
	}
	return d, nil
}

// readSets gives the store's sets; there need not be any.
func readSets(store fs.FS) (map[string]string, error) {
	sets := map[string]string{}
	entries, err := fs.ReadDir(store, setsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return sets, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotStore, setsPath, err)
	}
	for _, e := range entries {
		name := path.Join(setsPath, e.Name())
		text, err := document(store, name)
		if err == nil {
			_, _, err = pinset.DecodeSets(bytes.NewReader(text), name)
		}
		if err == nil && (!filepath.IsLocal(e.Name()) || strings.HasPrefix(e.Name(), ".")) {
			err = fs.ErrInvalid
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrNotStore, name, err)
		}
		sets[e.Name()] = string(text)
	}
	return sets, nil
}

// checkDependencies says why CRI-O could not list the images of a store, and so none of any
// other: its records are no files, or refer to layers that it neither has nor says it needs.
func (c content) checkDependencies(store fs.FS) error {
	for _, name := range []string{"overlay-images/images.json", "overlay-images/images.lock", "overlay-layers/layers.json", "overlay-layers/layers.lock"} {
		fi, err := fs.Stat(store, name)
		if err == nil && !fi.Mode().IsRegular() { // a pipe keeps who opens it for ever
			err = fs.ErrInvalid
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrNotStore, name, err)
		}
	}
	r, err := readRecords(store)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotStore, err)
	}
	known := map[string]bool{"": true}
	for _, n := range c.Delta.Needs {
		known[n.Layer] = true
	}
	var on []string
	for _, l := range r.layers {
		known[l.ID], on = true, append(on, l.Parent)
	}
	for _, img := range r.images {
		on = append(on, img.Layer)
	}
	for _, layer := range on {
		if !known[layer] {
			return fmt.Errorf("%w: it stands on the layer %s, and does not say that it needs it", ErrNotStore, layer)
		}
	}
	return nil
}

func document(store fs.FS, name string) ([]byte, error) {
	f, err := store.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxDocument)
	}
	return text, err
}

// readable says why CRI-O could not list what is in a store.
func readable(store fs.FS) error {
	for _, name := range []string{"overlay-images/images.json", "overlay-layers/layers.json"} {
		f, err := store.Open(name)
		if err != nil {
			return err
		}
		dec := json.NewDecoder(f)
		var all []struct{ ID string }
		if err := errors.Join(dec.Decode(&all), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
