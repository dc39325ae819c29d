package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"

	"github.com/opencontainers/go-digest"

	bounded "github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrDocument is the error for a document of a store that nobody writes.
var ErrDocument = errors.New("invalid document of an image store")

// Store reads the documents of an image store that containers/storage, CRI-O or pinbox wrote. It
// is for one goroutine.
type Store struct {
	// Strict refuses records with fields that pinbox does not write, which a caller that writes
	// the records again would lose.
	Strict bool

	files   fs.FS
	bytes   int64
	records int
}

// Open returns the store whose graph root is files. It reads nothing.
func Open(files fs.FS) *Store {
	return &Store{files: files, bytes: MaxStoreBytes, records: MaxStoreRecords}
}

// Layers calls take for each layer, the volatile ones first, and returns its first error. Without
// layers.json the error is fs.ErrNotExist, after the volatile layers were read.
func (s *Store) Layers(take func(Layer) error) error {
	if err := fault.Ignore(list(s, VolatileLayersFile, take), fs.ErrNotExist); err != nil {
		return err
	}
	return list(s, LayersFile, take)
}

// Images calls take for each image, and returns its first error.
func (s *Store) Images(take func(Image) error) error { return list(s, ImagesFile, take) }

// Containers calls take for each container, the volatile ones first, and returns its first error.
func (s *Store) Containers(take func(Container) error) error {
	if err := fault.Ignore(list(s, VolatileContainersFile, take), fs.ErrNotExist); err != nil {
		return err
	}
	return list(s, ContainersFile, take)
}

// Lock reads the lock in the folder of pinbox.
func (s *Store) Lock() (pinset.Lock, error) {
	l, err := decode(s, OwnLock, MaxStoreBytes, pinset.DecodeLock)
	if err != nil {
		return l, err
	}
	return l, s.countIn(OwnLock, lockEntries(l))
}

// Delta reads the description of a delta; it is the zero value if the store is not a delta.
func (s *Store) Delta() (pinset.Delta, error) {
	d, err := decode(s, OwnDelta, MaxStoreBytes, pinset.DecodeDelta)
	if fault.Ignore(err, fs.ErrNotExist) != nil {
		return d, err
	}
	return d, s.countIn(OwnDelta, len(d.Bases)+len(d.Needs))
}

// Sets returns the texts of the PinnedImageSets in the folder of pinbox, by their file names. A
// store may have none.
func (s *Store) Sets() (map[string]string, error) {
	sets := map[string]string{}
	entries, err := fs.ReadDir(s.files, OwnSets)
	for _, e := range entries {
		if err := s.count(1); err != nil {
			return nil, fmt.Errorf("%s: %w", OwnSets, err)
		}
		name := path.Join(OwnSets, e.Name())
		if e.Name()[0] == '.' || !pinset.Printable(e.Name()) {
			return nil, fmt.Errorf("%q: %w: not a file name of a set", name, ErrDocument)
		}
		text, err := decode(s, name, MaxSetBytes, io.ReadAll)
		if err != nil {
			return nil, err
		}
		if _, _, err := pinset.DecodeSets(bytes.NewReader(text), name); err != nil {
			return nil, err
		}
		sets[e.Name()] = string(text)
	}
	return sets, fault.Ignore(err, fs.ErrNotExist)
}

// Document reads the document of an image that has a key.
func (s *Store) Document(image, key string) ([]byte, error) {
	return decode(s, DocumentFile(image, key), MaxDocumentBytes, io.ReadAll)
}

// Token identifies the records of a store: it is a digest of the tokens in the lock files of
// layers and images, without which CRI-O takes the store for empty.
func (s *Store) Token() (string, error) {
	images, err := decode(s, ImagesLock, maxToken, io.ReadAll)
	if err != nil {
		return "", err
	}
	layers, err := decode(s, LayersLock, maxToken, io.ReadAll)
	if err != nil {
		return "", err
	}
	return digest.FromBytes(append(images, layers...)).Encoded(), nil
}

// read calls f with a document.
func (s *Store) read(name string, f func(*document) error) error {
	fi, err := fs.Stat(s.files, name)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() { // opening a pipe would block
		return fmt.Errorf("%s: %w: not a file", name, ErrDocument)
	}
	file, err := s.files.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	d := &document{File: file, store: s, end: math.MaxInt64}
	if err = f(d); d.failed != nil {
		err = d.failed // not the error that a decoder makes of it
	}
	if errors.Is(err, bounded.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// document is a file of a store, whose limits it observes.
type document struct {
	fs.File
	store   *Store
	at, end int64 // bytes that were read, and that may be read
	limit   int64 // of the document or the record, for the error
	failed  error
}

func (d *document) Read(p []byte) (int, error) {
	if d.at == d.end {
		d.failed = fmt.Errorf("%w: a document or a record of more than %d KiB", ErrTooLarge, d.limit>>10)
		return 0, d.failed
	}
	n, err := d.File.Read(p[:min(int64(len(p)), d.end-d.at)])
	d.at += int64(n)
	if d.store.bytes -= int64(n); d.store.bytes < 0 {
		err = fmt.Errorf("%w: more than %d MiB", ErrTooLarge, MaxStoreBytes>>20)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		d.failed = err
	}
	return n, err
}

// next lets a decoder read another record.
func (d *document) next(dec *json.Decoder) bool {
	d.limit, d.end = MaxRecordBytes, dec.InputOffset()+MaxRecordBytes
	return dec.More()
}

// countIn counts the entries of a document.
func (s *Store) countIn(name string, entries int) error {
	if err := s.count(entries); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// count counts records.
func (s *Store) count(records int) error {
	if s.records -= records; s.records < 0 {
		return fmt.Errorf("%w: more than %d records", ErrTooLarge, MaxStoreRecords)
	}
	return nil
}

// decode reads a document of at most max bytes that is not a list of records.
func decode[T any](s *Store, name string, max int64, read func(io.Reader) (T, error)) (got T, err error) {
	err = s.read(name, func(d *document) (err error) {
		d.limit, d.end = max, max+1 // to see the end of the file
		got, err = read(d)
		return err
	})
	return got, err
}

type record interface {
	check(strict bool) error
	// entries is how many records it counts as.
	entries() int
}

// list reads a list of records, and holds one of them at a time in memory. The file may be empty:
// containers/storage can leave such files.
func list[T record](s *Store, name string, take func(T) error) error {
	return s.read(name, func(d *document) error {
		dec := json.NewDecoder(d)
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
		for n := 0; d.next(dec); n++ {
			if err := one(s, dec, n, take); err != nil {
				return err
			}
		}
		if _, err := dec.Token(); err != nil {
			return fmt.Errorf("%w: %w", ErrDocument, err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it continues after the list", ErrDocument)
		}
		return nil
	})
}

// one reads record n and calls take.
func one[T record](s *Store, dec *json.Decoder, n int, take func(T) error) error {
	var r T
	err := dec.Decode(&r)
	if err == nil {
		err = r.check(s.Strict)
	}
	if tooMany := s.count(r.entries()); tooMany != nil {
		return tooMany
	}
	if err != nil {
		return fmt.Errorf("record %d: %w: %w", n, ErrDocument, err)
	}
	return take(r)
}
