package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What can be wrong with the bytes of a store.
var (
	ErrDamaged = errors.New("the store is damaged")
	ErrMissing = errors.New("the file of the store is missing")
)

// Extent is where a store is: a run of bytes in a file or device.
type Extent struct {
	Path string
	// Offset and Size are in bytes.
	Offset, Size int64
}

// sources finds stores, new ones and attached ones, and verifies and copies them.
type sources struct {
	dir        folder
	keys       string
	openFS     func(Extent) (FS, error)
	openMedium func(name string) (Medium, error)
}

// read reads the documents of a new store, before its digest is checked.
func (s sources) read(src source) (content, error) {
	store, err := s.openFS(src.Extent)
	if err != nil {
		return content{}, fmt.Errorf("%s: %w: %w", src.Path, ErrDamaged, err)
	}
	defer store.Close()
	c, err := examine(store)
	if err != nil {
		return content{}, fmt.Errorf("%s: %w", src.Path, err)
	}
	return c, nil
}

// copyVerified copies a store, or only reads it if it is used in place, and checks its digest
// and signature.
func (s sources) copyVerified(ctx context.Context, store *Store, src source, o AttachOptions) error {
	v, err := newSignatureVerifier(s.keys, src.signature)
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	if v != nil && o.InPlace && src.medium { // the signature is not checked at the next boot
		return fmt.Errorf("%s: %w", src.Path, ErrInPlace)
	}
	defer v.stop()
	if store.Size = src.Size; o.InPlace {
		store.Path, store.Offset, store.Medium = src.Path, src.Offset, src.medium
		err = src.copy(ctx, io.Discard, v, o.Progress)
	} else {
		err = s.copyToDir(ctx, *store, src, v, o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	return nil
}

// copyToDir copies a store into the state's folder: complete and synced, or not at all.
func (s sources) copyToDir(
	ctx context.Context, store Store, src source, v *signatureVerifier, o AttachOptions,
) error {
	if o.CheckSpace != nil {
		if err := o.CheckSpace(src.Size); err != nil {
			return err
		}
	}
	path := s.dir.file(store)
	f, err := atomicfile.CreateVia(path+partSuffix, path, 0o600)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := src.copy(ctx, f, v, o.Progress); err != nil {
		return err
	}
	state, err := ReadState(string(s.dir))
	if err == nil { // ReadState refuses a folder that has stores but no state
		err = state.write(string(s.dir))
	}
	if err != nil {
		return err
	}
	return f.Commit()
}

// copy copies a store and checks its digest and, unless v is nil, its signature.
func (s source) copy(ctx context.Context, to io.Writer, v *signatureVerifier, progress func(read, size int64)) error {
	f, err := os.Open(s.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), s.Offset, s.Size, unix.FADV_SEQUENTIAL)
	if v != nil {
		to = io.MultiWriter(to, v)
	}
	in, want := io.NewSectionReader(f, s.Offset, s.Size), transfer.Content{Size: s.Size, Digest: s.id}
	err = transfer.Copy(ctx, to, in, want, func(bytes int64) {
		if progress != nil {
			progress(bytes, s.Size)
		}
	})
	if errors.Is(err, transfer.ErrRead) || errors.Is(err, transfer.ErrDigest) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	return v.finish()
}

// recheck reads the documents of a copied store again: the source may have changed between
// read and copy.
func (s sources) recheck(o Store) (content, error) {
	store, e, err := s.open(o)
	if err != nil {
		return content{}, err
	}
	defer store.Close()
	c, err := examine(store)
	if err == nil && c.Token != o.Token {
		err = ErrDamaged
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", e.Path, err)
	}
	return c, nil
}

// extent finds an attached store and checks its size.
func (s sources) extent(o Store) (Extent, error) {
	if o.Medium {
		return s.findMedium(o)
	}
	e := Extent{Path: s.dir.file(o), Offset: o.Offset, Size: o.Size}
	if o.Path != "" {
		e.Path = o.Path
	}
	fi, err := os.Stat(e.Path)
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if fi.Size() < o.Offset+o.Size || o.Offset == 0 && fi.Size() != o.Size {
		return e, fmt.Errorf("%s: %w: %d bytes, want %d", e.Path, ErrDamaged, fi.Size()-o.Offset, o.Size)
	}
	return e, nil
}

// open opens an attached store, whether it is mounted or not.
func (s sources) open(o Store) (FS, Extent, error) {
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
func (s sources) readDelta(o Store) (pinset.Delta, Extent, error) {
	store, e, err := s.open(o)
	if err != nil {
		return pinset.Delta{}, e, err
	}
	defer store.Close()
	got, err := token(store)
	if err == nil && got != o.Token {
		err = errors.New("the file has another store")
	}
	if err != nil {
		return pinset.Delta{}, e, fmt.Errorf("%s: %w: %w", e.Path, ErrDamaged, err)
	}
	delta, err := readDelta(store)
	return delta, e, err
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
	ErrNoStore  = errors.New("no store found")
	ErrNoDigest = errors.New("the SHA-256 of the store is unknown")
)

// source is where a new store is, and its expected digest.
type source struct {
	Extent
	id digest.Digest
	// signature of the store, detached; nil for none.
	signature []byte
	// medium means that Path is a device, whose name may change.
	medium bool
}

// find finds a store: in a file, in a folder, or on a medium. want is its digest; "" reads it
// from the sums next to the store.
func (s sources) find(name string, want digest.Digest) (src source, err error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return src, fmt.Errorf("%w: %w", ErrNoStore, err)
	case fi.IsDir():
		err = src.inFolder(name, want)
	case isMedium(name):
		src, err = s.onMedium(name, want)
		src.medium = fi.Mode()&fs.ModeDevice != 0
	case fi.Mode().IsRegular():
		err = src.inFile(name, want)
	default:
		err = fmt.Errorf("%s: %w: not a file, a folder or the device of a medium", name, ErrNoStore)
	}
	return src, err
}

// inFolder finds the store in a folder that `pinbox delta` or `pinbox build` made, or in a
// mounted medium.
func (s *source) inFolder(dir string, want digest.Digest) error {
	for _, folder := range []string{dir, filepath.Join(dir, layout.MediumDir)} {
		for _, name := range []string{layout.DeltaStoreFile, layout.StoreFile} {
			file := filepath.Join(folder, name)
			if _, err := os.Stat(file); err == nil {
				return s.inFile(file, want)
			}
		}
	}
	return fmt.Errorf("%s: %w", dir, ErrNoStore)
}

// inFile takes the store in a file, and reads its signature and its expected digest.
func (s *source) inFile(file string, want digest.Digest) (err error) {
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	s.Extent, s.id = Extent{Path: file, Size: fi.Size()}, want
	if s.signature, err = readSignature(file); err != nil {
		return err
	}
	for _, name := range []string{layout.SumsFile, layout.MediumSums} {
		if s.id != "" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if s.id, err = layout.SumOf(text, filepath.Base(file)); err != nil {
			return fmt.Errorf("%s: %w: %s: %w", file, ErrNoDigest, name, err)
		}
	}
	if s.id == "" {
		return fmt.Errorf("%s: %w", file, ErrNoDigest)
	}
	return nil
}
