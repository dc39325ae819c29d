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
	ErrMissing = errors.New("the file of the store is not there")
)

// Extent is where the bytes of a store are: a file, or a part of one or of a device.
type Extent struct {
	Path string
	// Offset and Size in bytes.
	Offset, Size int64
}

// sources finds the bytes of stores, those that come and those that are attached, and checks
// them.
type sources struct {
	dir       folder
	keys      string
	openImage func(Extent) (FS, error)
	openDisc  func(name string) (Medium, error)
}

// read reads the records of a new store. Its digest is not checked yet.
func (s sources) read(src source) (content, error) {
	image, err := s.openImage(src.Extent)
	if err != nil {
		return content{}, fmt.Errorf("%s: %w: %w", src.Path, ErrDamaged, err)
	}
	defer image.Close()
	c, err := examine(image)
	if err != nil {
		return content{}, fmt.Errorf("%s: %w", src.Path, err)
	}
	return c, nil
}

// copyVerified copies the file of a store, or only reads it if it is used in place, and checks
// its digest and signature.
func (s sources) copyVerified(ctx context.Context, store *Store, src source, o AttachOptions) error {
	v, err := newSignatureVerifier(s.keys, src.signature)
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	if v != nil && o.InPlace && src.medium { // nobody would check it at the next boot
		return fmt.Errorf("%s: %w", src.Path, ErrInPlace)
	}
	defer v.stop()
	if store.Size = src.Size; o.InPlace {
		store.Path, store.Offset, store.Medium = src.Path, src.Offset, src.medium
		err = src.copy(ctx, io.Discard, v, o.Progress)
	} else {
		err = s.keep(ctx, *store, src, v, o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	return nil
}

// keep copies the file into the state's folder: complete and durable, or not at all.
func (s sources) keep(ctx context.Context, store Store, src source, v *signatureVerifier, o AttachOptions) error {
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
	if err == nil { // a file without a state would look as if the state was lost
		err = state.write(string(s.dir))
	}
	if err != nil {
		return err
	}
	return f.Commit()
}

// copy copies the bytes of a store, and checks their digest and signature. A nil v checks no
// signature.
func (s source) copy(ctx context.Context, to io.Writer, v *signatureVerifier, done func(done, all int64)) error {
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
		if done != nil {
			done(bytes, s.Size)
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

// recheck reads what a copied store says of itself. What was read before its digest was
// known may not be what was copied.
func (s sources) recheck(o Store) (content, error) {
	image, e, err := s.open(o)
	if err != nil {
		return content{}, err
	}
	defer image.Close()
	c, err := examine(image)
	if err == nil && c.Token != o.Token {
		err = ErrDamaged
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", e.Path, err)
	}
	return c, nil
}

// extent is where the bytes of an attached store are.
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
		return e, fmt.Errorf("%s: %w: it has %d bytes of %d", e.Path, ErrDamaged, fi.Size()-o.Offset, o.Size)
	}
	return e, nil
}

// open reads an attached store, mounted or not.
func (s sources) open(o Store) (FS, Extent, error) {
	e, err := s.extent(o)
	if err != nil {
		return nil, e, err
	}
	image, err := s.openImage(e)
	if err != nil {
		return nil, e, errors.Join(fmt.Errorf("%s: %w", e.Path, ErrDamaged), err)
	}
	return image, e, nil
}

// describe reads the description of an attached store, mounted or not.
func (s sources) describe(o Store) (pinset.Delta, Extent, error) {
	image, e, err := s.open(o)
	if err != nil {
		return pinset.Delta{}, e, err
	}
	defer image.Close()
	got, err := token(image)
	if err == nil && got != o.Token {
		err = errors.New("it is another store")
	}
	if err != nil {
		return pinset.Delta{}, e, fmt.Errorf("%s: %w: %w", e.Path, ErrDamaged, err)
	}
	delta, err := readDelta(image)
	return delta, e, err
}

// records reads those of an attached store, mounted or not.
func (s sources) records(o Store) (*records, error) {
	image, _, err := s.open(o)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	r, err := readRecords(image)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Why nothing can be attached.
var (
	ErrNoStore  = errors.New("there is no store of pinbox")
	ErrNoDigest = errors.New("nothing says what its SHA-256 is")
)

// source is a store that is to be attached, and what it should be.
type source struct {
	Extent
	id digest.Digest
	// signature that is beside it; nil for none.
	signature []byte
	// medium says that it is on a device, whose name may be another later.
	medium bool
}

// find finds a store: in a file, a folder, or on a medium. want is its digest; "" takes it
// from the sums beside the store.
func (s sources) find(name string, want digest.Digest) (src source, err error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return src, fmt.Errorf("%w: %w", ErrNoStore, err)
	case fi.IsDir():
		err = src.inFolder(name, want)
	case isDisc(name):
		src, err = s.onDisc(name, want)
		src.medium = fi.Mode()&fs.ModeDevice != 0
	case fi.Mode().IsRegular():
		err = src.inFile(name, want)
	default:
		err = fmt.Errorf("%s: %w: it is neither a file, a folder nor the device of a medium", name, ErrNoStore)
	}
	return src, err
}

// inFolder finds a store in a folder: the output of `pinbox delta` or `pinbox build`, or a
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

// inFile takes a file, and finds out what its digest should be.
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
