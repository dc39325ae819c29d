package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// What can be wrong with the documents of a store.
var (
	ErrDocument = errors.New("not a document that a store can have")
	ErrTooLarge = errors.New("the store has more documents than pinbox reads")
)

// The budget of a store: all of its documents share it. Those of a release of OpenShift, with
// about 200 images and 1,000 layers, take less than a fifth of the bytes.
const (
	maxBytes   = 64 << 20
	maxRecords = 100_000
)

// Store reads the documents of an image store that containers/storage, CRI-O or pinbox has
// written. It is for one goroutine.
type Store struct {
	// Strict refuses records with fields that pinbox does not write: who writes the records
	// again would lose them.
	Strict bool

	files   fs.FS
	bytes   int64
	records int
}

// Open gives the store whose root is files. Nothing is read yet.
func Open(files fs.FS) *Store { return &Store{files: files, bytes: maxBytes, records: maxRecords} }

// Layers calls take with each layer, the volatile ones first, and ends with its first error.
// Without layers.json the error is fs.ErrNotExist, after the volatile layers were read.
func (s *Store) Layers(take func(Layer) error) error {
	if err := ifThere(list(s, VolatileLayersFile, take)); err != nil {
		return err
	}
	return list(s, LayersFile, take)
}

// Images is Layers for images, of which none is volatile.
func (s *Store) Images(take func(Image) error) error { return list(s, ImagesFile, take) }

// Containers is Layers for containers.
func (s *Store) Containers(take func(Container) error) error {
	if err := ifThere(list(s, VolatileContainersFile, take)); err != nil {
		return err
	}
	return list(s, ContainersFile, take)
}

func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Lock reads the lock that pinbox has put into the store.
func (s *Store) Lock() (pinset.Lock, error) { return decode(s, OwnLock, pinset.DecodeLock) }

// Delta reads what pinbox says of a delta; it is the zero one in another store.
func (s *Store) Delta() (pinset.Delta, error) {
	d, err := decode(s, OwnDelta, pinset.DecodeDelta)
	return d, ifThere(err)
}

// Sets reads the PinnedImageSets that pinbox has put into the store: their texts, by the
// names of their files. There need not be any.
func (s *Store) Sets() (map[string]string, error) {
	sets := map[string]string{}
	entries, err := fs.ReadDir(s.files, OwnSets)
	for _, e := range entries {
		if err := s.count(); err != nil {
			return nil, fmt.Errorf("%s: %w", OwnSets, err)
		}
		name := path.Join(OwnSets, e.Name())
		if e.Name()[0] == '.' || !printable(e.Name()) {
			return nil, fmt.Errorf("%q: %w: not the name of a set's file", name, ErrDocument)
		}
		text, err := decode(s, name, io.ReadAll)
		if err != nil {
			return nil, err
		}
		if _, _, err := pinset.DecodeSets(bytes.NewReader(text), name); err != nil {
			return nil, err
		}
		sets[e.Name()] = string(text)
	}
	return sets, ifThere(err)
}

// Token tells the records of a store from those of another: it is made of what their lock
// files hold. A store without them looks empty to CRI-O.
func (s *Store) Token() (string, error) {
	images, err := decode(s, ImagesLock, io.ReadAll)
	if err != nil {
		return "", err
	}
	layers, err := decode(s, LayersLock, io.ReadAll)
	if err != nil {
		return "", err
	}
	return digest.FromBytes(append(images, layers...)).Encoded(), nil
}

// read lets f read a document.
func (s *Store) read(name string, f func(io.Reader) error) error {
	fi, err := fs.Stat(s.files, name)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() { // a pipe would keep its reader for ever
		return fmt.Errorf("%s: %w: not a file", name, ErrDocument)
	}
	file, err := s.files.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	d := &document{File: file, store: s}
	if err = f(d); d.failed != nil {
		err = d.failed // and not what a decoder made of it
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// document takes what is read of it from the budget of its store.
type document struct {
	fs.File
	store  *Store
	failed error
}

func (d *document) Read(p []byte) (int, error) {
	n, err := d.File.Read(p)
	if d.store.bytes -= int64(n); d.store.bytes < 0 {
		err = fmt.Errorf("%w: %d MiB", ErrTooLarge, maxBytes>>20)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		d.failed = err
	}
	return n, err
}

// count takes a record or a set from the budget.
func (s *Store) count() error {
	if s.records--; s.records < 0 {
		return fmt.Errorf("%w: %d records and sets", ErrTooLarge, maxRecords)
	}
	return nil
}

// decode reads a document as a whole.
func decode[T any](s *Store, name string, read func(io.Reader) (T, error)) (got T, err error) {
	err = s.read(name, func(r io.Reader) (err error) {
		got, err = read(r)
		return err
	})
	return got, err
}

type record interface{ check(strict bool) error }

// list reads a list of records, of which it keeps one at a time. An empty file, which
// containers/storage may leave, has none.
func list[T record](s *Store, name string, take func(T) error) error {
	return s.read(name, func(r io.Reader) error {
		dec := json.NewDecoder(r)
		if s.Strict {
			dec.DisallowUnknownFields()
		}
		start, err := dec.Token()
		if errors.Is(err, io.EOF) || err == nil && start == nil { // null
			return nil
		}
		if err == nil && start != json.Delim('[') {
			err = errors.New("not a list")
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDocument, err)
		}
		for n := 0; dec.More(); n++ {
			if err := one(s, dec, n, take); err != nil {
				return err
			}
		}
		if _, err := dec.Token(); err != nil {
			return fmt.Errorf("%w: %w", ErrDocument, err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it goes on after the list", ErrDocument)
		}
		return nil
	})
}

// one reads record n.
func one[T record](s *Store, dec *json.Decoder, n int, take func(T) error) error {
	if err := s.count(); err != nil {
		return err
	}
	var r T
	err := dec.Decode(&r)
	if err == nil {
		err = r.check(s.Strict)
	}
	if err != nil {
		return fmt.Errorf("record %d: %w: %w", n, ErrDocument, err)
	}
	return take(r)
}
