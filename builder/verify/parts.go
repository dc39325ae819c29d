package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/verity"
)

// recordsInParts is what is not checked of a store in parts.
const recordsInParts = "what the store has inside, as it is in parts: verify the folder that they were made of"

// inParts reports whether a folder has a store in parts, of `pinbox medium --split`.
func inParts(sums layout.Sums, store string) bool { return sums[layout.PartName(store, 1)] != "" }

// split verifies a folder with a store in parts. The parts are read once, one after the other.
func (v *Result) split(ctx context.Context, dir, name string, sums layout.Sums, hooks progress.Hooks) error {
	store, got, err := v.parts(ctx, dir, name, sums, hooks)
	if err == nil && !store.Tree.IsZero() {
		err = sameRootHash(store.Tree, sums, layout.RootHashFile(name))
	}
	if _, failed := os.Lstat(filepath.Join(dir, name)); failed == nil { // it is not compared with its sum
		err = errors.Join(err, fmt.Errorf("%s is there in parts, and as one file", name))
	}
	errs := []error{err, v.addListed(ctx, dir, name, sums, got, hooks), differences(sums, got)}
	lock, err := artifact.ReadLock(filepath.Join(dir, artifact.LockFile))
	if errs = append(errs, err); errors.Join(errs...) == nil {
		v.Totals, v.Unchecked = lock.Totals(), append(v.Unchecked, recordsInParts)
		errs = append(errs, checkProvenance(dir, lock, sums))
	}
	return errors.Join(errs...)
}

// addListed adds the sums of the other files that are listed. The folder may be a stick, with files of others: they
// are counted, and not read. One with the name of the store and another ending is a part that is not listed.
func (v *Result) addListed(
	ctx context.Context, dir, store string, want, got layout.Sums, hooks progress.Hooks,
) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	others := 0
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == artifact.SumsFile || got[name] != "" || signs(name, want):
		case want[name] != "":
			if got[name], err = artifact.SumFile(ctx, filepath.Join(dir, name), hooks); err != nil {
				return err
			}
		case strings.HasPrefix(name, store):
			got[name] = "not listed"
		default:
			others++
		}
	}
	if others > 0 {
		v.Unchecked = append(v.Unchecked, fmt.Sprintf("%d other files and folders, which are not in %s", others,
			artifact.SumsFile))
	}
	return nil
}

// parts reads the parts of a store, and returns the store and the sums of both.
func (v *Result) parts(
	ctx context.Context, dir, name string, sums layout.Sums, hooks progress.Hooks,
) (store artifact.Store, got layout.Sums, err error) {
	got = layout.Sums{}
	f, err := openParts(dir, name, sums)
	if err != nil {
		return store, got, err
	}
	hooks.Begin("hash the parts of "+name, f.size)
	whole, check := sha256.New(), verity.NewChecker(f.size)
	for _, part := range f.names {
		content, err := input.Open(filepath.Join(dir, part))
		if err != nil {
			return store, got, err
		}
		got[part], _, err = artifact.SumReader(ctx, io.TeeReader(content, io.MultiWriter(whole, check)), hooks)
		_ = content.Close() // it was only read
		if err != nil {
			return store, got, err
		}
	}
	got[name] = hex.EncodeToString(whole.Sum(nil))
	store = artifact.Store{Name: name, Size: f.size, Sum: got[name]}
	if store.Tree, err = check.Tree(); err != nil && name != artifact.ThinStoreFile {
		return store, got, fmt.Errorf("%s: %w", name, err)
	}
	v.StoreSize, v.StoreDigest, v.StoreRootHash = store.Size, store.Digest(), store.RootHash()
	return store, got, nil
}

// openStore opens the store of a folder, which may be in parts, and returns its size in bytes.
func openStore(dir, name string, sums layout.Sums) (io.ReadCloser, int64, error) {
	if inParts(sums, name) {
		f, err := openParts(dir, name, sums)
		return f, f.size, err
	}
	f, err := input.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

// partsReader reads the parts of a store, one after the other.
type partsReader struct {
	dir   string
	names []string // of all parts
	size  int64    // of all, in bytes
	next  int
	open  io.ReadCloser // or nil
}

// openParts finds the parts of a store that the sums list.
func openParts(dir, name string, sums layout.Sums) (*partsReader, error) {
	f := &partsReader{dir: dir}
	for n := 1; n <= layout.MaxParts && sums[layout.PartName(name, n)] != ""; n++ {
		part, err := input.Open(filepath.Join(dir, layout.PartName(name, n)))
		if err != nil {
			return f, err
		}
		fi, err := part.Stat()
		if err := errors.Join(err, part.Close()); err != nil {
			return f, err
		}
		f.names, f.size = append(f.names, layout.PartName(name, n)), f.size+fi.Size()
	}
	return f, nil
}

func (f *partsReader) Read(p []byte) (int, error) {
	for {
		if f.open == nil {
			if f.next == len(f.names) {
				return 0, io.EOF
			}
			part, err := input.Open(filepath.Join(f.dir, f.names[f.next]))
			if err != nil {
				return 0, err
			}
			f.open, f.next = part, f.next+1
		}
		n, err := f.open.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := f.Close(); err != nil {
			return 0, err
		}
	}
}

func (f *partsReader) Close() (err error) {
	if f.open != nil {
		err, f.open = f.open.Close(), nil
	}
	return err
}
