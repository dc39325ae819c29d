package stores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
)

// What can be wrong with the bytes of a store.
var (
	ErrDamaged = fault.New(fault.Damaged, "the store is damaged",
		"check the original with `pinbox verify`, and copy it again")
	ErrMissing = fault.New(fault.Damaged, "the file of the store is missing",
		"insert its medium, or attach the store again")
)

// sources finds stores, new ones and attached ones, and verifies and copies new ones.
type sources struct {
	dir        folder
	keys       string
	signed     bool
	openFS     func(mount.Extent) (FS, error)
	openMedium func(name string) (Medium, error)
}

// extent finds an attached store and checks its size.
func (s sources) extent(o Store) (mount.Extent, error) {
	if o.Medium {
		return s.findMedium(o)
	}
	e := mount.Extent{Path: s.dir.file(o), Offset: o.Offset, Size: o.Size}
	if o.Path != "" {
		e.Path = o.Path
	}
	fi, err := stat(e.Path)
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if fi.Size() < o.Offset+o.Size || o.Offset == 0 && fi.Size() != o.Size {
		return e, fmt.Errorf("%s: %w: %d bytes, want %d", e.Path, ErrDamaged, fi.Size()-o.Offset, o.Size)
	}
	return e, nil
}

// open opens an attached store, whether it is mounted or not.
func (s sources) open(o Store) (FS, mount.Extent, error) {
	e, err := s.extent(o)
	if err != nil {
		return nil, e, err
	}
	store, err := s.openFS(e)
	if err != nil {
		return nil, e, errors.Join(fmt.Errorf("%s: %w", e.Path, ErrDamaged), err)
	}
	return store, e, nil
}

// readDelta reads the delta.json of an attached store, whether it is mounted or not.
func (s sources) readDelta(o Store) (pinset.Delta, mount.Extent, error) {
	store, e, err := s.open(o)
	if err != nil {
		return pinset.Delta{}, e, err
	}
	defer store.Close()
	documents := layout.Open(store) // one budget for both
	got, err := documents.Token()
	if err == nil && got != o.Token {
		err = errors.New("the file has another store")
	}
	if err != nil {
		return pinset.Delta{}, e, fmt.Errorf("%s: %w", e.Path, fault.Wrap(ErrDamaged, err))
	}
	delta, err := documents.Delta()
	return delta, e, notStore(err)
}

// records reads the records of an attached store, whether it is mounted or not.
func (s sources) records(o Store) (*records, error) {
	store, _, err := s.open(o)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r, err := readRecords(store)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Why a source cannot be attached.
var (
	ErrNoStore = fault.New(fault.Input, "no store found",
		"run it as root; name the store's file, its folder, or the device of a medium; mount a stick, and name the "+
			"folder")
	ErrNoDigest = fault.New(fault.Input, "the SHA-256 of the store is unknown",
		"copy SHA256SUMS next to the store, or give --digest")
	// errNotFile is for a pipe, which a read may block on, or a device, which may have no end.
	errNotFile = errors.New("not a regular file")
)

// source is where a new store is. Nothing in the store was read yet.
type source struct {
	mount.Extent
	// id is the expected digest. On a node with keys it may be unknown, "": the signature counts
	// there.
	id digest.Digest
	// keys of the node, and the detached signature of the store; nil for none.
	keys      signature.Keys
	signature []byte
	// medium means that Path is a device, whose name may change.
	medium bool
	// parts means that the store was split; Path is the name without the numbers of its parts then.
	parts bool
}

// find finds a store: in a file, in a folder, or on a medium. want is its digest; "" reads it
// from the sums next to the store.
func (s sources) find(name string, want digest.Digest) (source, error) {
	keys, err := signature.ReadKeysDir(s.keys)
	if err != nil {
		return source{}, fmt.Errorf("keys: %w", err)
	}
	if s.signed && keys.IsEmpty() {
		return source{}, fmt.Errorf("%w: %s has none", ErrNoKeys, s.keys)
	}
	src := source{id: want, keys: keys}
	if name == "" && want != "" { // the node has it: see Lacks
		return src, nil
	}
	fi, err := stat(name)
	medium := false
	if err == nil && !fi.IsDir() {
		medium, err = isMedium(name)
	}
	store, isPart := layout.CutPart(name)
	switch {
	case isPart && hasParts(store), hasParts(name):
		err = src.inFile(store)
	case err != nil:
		return src, fault.Wrap(ErrNoStore, err)
	case fi.IsDir():
		err = src.inFolder(name)
	case medium:
		src.medium = fi.Mode()&fs.ModeDevice != 0
		err = s.onMedium(name, &src)
	case fi.Mode().IsRegular():
		err = src.inFile(name)
	default:
		err = fmt.Errorf("%s: %w: not a file, a folder or the device of a medium", name, ErrNoStore)
	}
	if err == nil && src.id == "" && keys.IsEmpty() {
		err = fmt.Errorf("%s: %w", name, ErrNoDigest)
	}
	return src, err
}

// inFolder finds the store in a folder that `pinbox delta`, `pinbox build` or `pinbox medium --split` made, on a
// stick, or in a mounted medium.
func (s *source) inFolder(dir string) error {
	for _, folder := range []string{dir, filepath.Join(dir, layout.MediumDir)} {
		names, err := filesIn(folder)
		if err != nil {
			return err
		}
		found, err := StoreAmong(names)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if found != "" {
			return s.inFile(filepath.Join(folder, found))
		}
	}
	return fmt.Errorf("%s: %w", dir, ErrNoStore)
}

// StoreAmong returns the store among the files of a folder, of one in parts the name without a number; "" for none.
func StoreAmong(names []string) (string, error) {
	var found []string
	for _, name := range names {
		store, _ := layout.CutPart(name)
		suffix := filepath.Ext(store)
		known := suffix == layout.AttachedSuffix || suffix == filepath.Ext(layout.ThinStoreFile)
		if known && !strings.HasPrefix(store, ".") {
			found = append(found, store)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	for _, name := range layout.AttachableStores() {
		if slices.Contains(found, name) {
			found = []string{name}
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%w: it has several, %s; name one", ErrNoStore, strings.Join(found, ", "))
}

// inFile takes the store in a file, or in parts of it, and reads its signature and its expected digest.
func (s *source) inFile(name string) (err error) {
	name, err = filepath.Abs(name)
	if err != nil {
		return err
	}
	if s.parts = hasParts(name); s.parts {
		var whole layout.Part
		if whole, err = openParts(name); err == nil {
			s.Size, err = whole.Size, whole.Close()
		}
	} else {
		var file *os.File
		if file, s.Size, err = openFile(name); err == nil {
			_ = file.Close() // nothing was written
		}
	}
	if err != nil {
		return fault.Wrap(ErrNoStore, err)
	}
	s.Path = name
	if s.signature, err = readSignature(name); err != nil {
		return err
	}
	for _, sums := range []string{layout.SumsFile, layout.MediumSums} {
		if s.id != "" {
			return nil
		}
		if s.id, err = findSum(filepath.Join(filepath.Dir(name), sums), filepath.Base(name)); err != nil {
			return fmt.Errorf("%s: %w", name, fault.Wrap(ErrNoDigest, err))
		}
	}
	return nil
}

// findSum returns the digest of a file in a file of sums, "" if it is not listed.
func findSum(sums, name string) (digest.Digest, error) {
	f, size, err := openFile(sums)
	if err != nil {
		return "", fault.Ignore(err, fs.ErrNotExist)
	}
	defer f.Close()
	sum, err := layout.FindSum(patient(f, size), name)
	if err != nil {
		err = fmt.Errorf("%s: %w", sums, err)
	}
	return sum, err
}

// patient returns a reader of a file of a medium, which does not wait for ever.
func patient(f *os.File, size int64) io.Reader {
	return io.NewSectionReader(transfer.WithDeadline(f, transfer.ReadDeadline), 0, size)
}

// openFile opens a regular file, which another user may have made, and returns its size in bytes.
func openFile(name string) (*os.File, int64, error) {
	fi, err := stat(name) // some devices do something when they are opened
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: %w", name, errNotFile)
	}
	f, err := open(name, os.O_RDONLY|unix.O_NONBLOCK) // opening a pipe would block
	if err != nil {
		return nil, 0, err
	}
	if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, errNotFile)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}
