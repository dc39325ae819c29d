package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
)

// ErrSplit is returned for a size of parts that is too small, for them or for the store.
var ErrSplit = fault.New(fault.Usage, "the parts are too small",
	"give a larger size with --split: 4G for FAT")

// partGrain is what the sizes of parts are multiples of, in bytes, so that copies of them are aligned.
const partGrain = 1 << 20

// split writes a folder with the store in parts, for a stick whose file system has a limit: of 4 GiB in FAT. The
// sums list the store as one file, and no parts; so does the signature cover it.
func split(ctx context.Context, o MediumOptions, store string, sums layout.Sums) (err error) {
	if sums[store] == "" {
		return fmt.Errorf("%s: %w", o.Dir, ErrNoMedium)
	}
	signing, err := o.sign(store, sums[store])
	if err != nil {
		return err
	}
	stage, err := OpenStage(o.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()
	for _, name := range []string{layout.LockFile, layout.ProvenanceFile, layout.RootHashFile(store)} {
		if sums[name] == "" { // a thin delta has no hash tree
			continue
		}
		content, err := input.Read(filepath.Join(o.Dir, name))
		if err != nil {
			return err
		}
		if hexSum(content) != sums[name] {
			return fmt.Errorf("%s: %w: %s has changed", o.Dir, release.ErrVerify, name)
		}
		if err := stage.Write(name, content); err != nil {
			return err
		}
	}
	stage.signing = signing
	if err := stage.WriteSums(ctx, store, layout.Sums{store: sums[store]}, progress.Hooks{}); err != nil {
		return err
	}
	sum, err := stage.split(ctx, filepath.Join(o.Dir, store), o.Split, o.Hooks)
	if err != nil {
		return err
	}
	if sum != sums[store] {
		return fmt.Errorf("%s: %w: %s has changed: SHA-256 %s, want %s", o.Dir, release.ErrVerify, store, sum, sums[store])
	}
	return stage.Publish()
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// split writes the parts of a store, each of less than limit bytes, and returns the sum of the store.
func (s *Stage) split(ctx context.Context, store string, limit int64, hooks progress.Hooks) (string, error) {
	f, err := input.Open(store)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	size, perm := (limit-1)/partGrain*partGrain, fi.Mode().Perm()&0o644
	if size <= 0 || fi.Size() > size*layout.MaxParts {
		return "", fmt.Errorf("%w: the store has %d bytes, and a part less than %d", ErrSplit, fi.Size(), limit)
	}
	hooks.Begin("split "+filepath.Base(store), fi.Size())
	whole := sha256.New()
	for n, left := 1, fi.Size(); left > 0; n++ {
		part, err := atomicfile.Create(s.Path(layout.PartName(filepath.Base(store), n)), perm)
		if err != nil {
			return "", err
		}
		content := reader{ctx, io.LimitReader(f, min(size, left)), hooks.Done}
		if _, err = io.Copy(io.MultiWriter(part, whole), content); err == nil {
			err = part.Commit()
		}
		if err != nil {
			part.Abort()
			return "", err
		}
		left -= min(size, left)
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}
