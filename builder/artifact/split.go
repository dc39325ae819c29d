package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// ErrSplit is returned for a size of parts that is too small, for them or for the store.
var ErrSplit = errors.New("the parts are too small")

// partGrain is what the sizes of parts are multiples of, in bytes, so that copies of them are aligned.
const partGrain = 1 << 20

// split writes a folder with the store in parts, for a stick whose file system has a limit: of 4 GiB in FAT. The
// sums list the parts, and the store as one file; so does the signature cover it.
func split(ctx context.Context, o MediumOptions, sums layout.Sums) (err error) {
	store := StoreFile
	if IsDelta(sums) {
		store = deltaStore(sums)
	}
	if sums[store] == "" {
		return fmt.Errorf("%s: %w", o.Dir, ErrNoMedium)
	}
	signing, err := o.sign(ctx, store)
	if err != nil {
		return err
	}
	stage, err := OpenStage(o.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()
	known, err := stage.split(ctx, filepath.Join(o.Dir, store), o.Split, o.Hooks)
	if err != nil {
		return err
	}
	if known[store] != sums[store] {
		return fmt.Errorf("%s: %w: %s has changed: SHA-256 %s, want %s", o.Dir, ErrVerify, store, known[store], sums[store])
	}
	for _, name := range []string{LockFile, ProvenanceFile, layout.RootHashFile(store)} {
		if sums[name] == "" { // a thin delta has no hash tree
			continue
		}
		content, err := input.Read(filepath.Join(o.Dir, name))
		if err != nil {
			return err
		}
		if hexSum(content) != sums[name] {
			return fmt.Errorf("%s: %w: %s has changed", o.Dir, ErrVerify, name)
		}
		if err := stage.Write(name, content); err != nil {
			return err
		}
	}
	stage.signing = signing
	if err := stage.WriteSums(ctx, store, known, progress.Hooks{}); err != nil {
		return err
	}
	return stage.Publish()
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// split writes the parts of a store, each of less than limit bytes, and returns their sums and that of the store.
func (s *Stage) split(ctx context.Context, store string, limit int64, hooks progress.Hooks) (layout.Sums, error) {
	f, err := input.Open(store)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size, perm := (limit-1)/partGrain*partGrain, fi.Mode().Perm()&0o644
	if size <= 0 || fi.Size() > size*layout.MaxParts {
		return nil, fmt.Errorf("%w: the store has %d bytes, and a part less than %d", ErrSplit, fi.Size(), limit)
	}
	hooks.Begin("split "+filepath.Base(store), fi.Size())
	sums, whole := layout.Sums{}, sha256.New()
	for n, left := 1, fi.Size(); left > 0; n++ {
		name := layout.PartName(filepath.Base(store), n)
		bytes := min(size, left)
		if sums[name], err = s.part(ctx, name, perm, io.LimitReader(f, bytes), whole, hooks); err != nil {
			return nil, err
		}
		left -= bytes
	}
	sums[filepath.Base(store)] = hex.EncodeToString(whole.Sum(nil))
	return sums, nil
}

// part writes one part, and returns its sum.
func (s *Stage) part(
	ctx context.Context, name string, perm os.FileMode, content io.Reader, whole hash.Hash, hooks progress.Hooks,
) (sum string, err error) {
	f, err := atomicfile.Create(s.Path(name), perm)
	if err != nil {
		return "", err
	}
	defer f.Abort()
	if sum, _, err = SumReader(ctx, io.TeeReader(content, io.MultiWriter(f, whole)), hooks); err != nil {
		return "", err
	}
	return sum, f.Commit()
}
