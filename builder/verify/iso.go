package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// verifyISO verifies the files that pinbox added to an ISO, its Ignition config and its base.
func verifyISO(ctx context.Context, name string, hooks progress.Hooks) (Result, error) {
	image, f, err := iso.OpenFile(name)
	if errors.Is(err, iso9660.ErrNotISO) {
		return Result{}, fault.Wrap(artifact.ErrNotAppliance, err)
	}
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	text, err := image.ReadText(path.Join(iso.Dir, artifact.ISOSums))
	if errors.Is(err, iso9660.ErrNotFound) {
		return Result{}, fmt.Errorf("%s: %w", name, fault.Wrap(artifact.ErrNotAppliance, err))
	}
	if err != nil {
		return Result{}, err
	}
	sums, err := artifact.ParseSums(text, name, artifact.ISOSums)
	if err != nil {
		return Result{}, err
	}
	v := Result{Dir: name, Files: len(sums)}
	errs := []error{checkEntries(sums)}
	if fi, err := f.Stat(); err == nil {
		hooks.Begin("hash "+filepath.Base(name), fi.Size())
	}
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		got, err := v.sumInISO(ctx, image, file, sums, hooks)
		if got == "" {
			errs = append(errs, err)
			continue
		}
		if got != sums[file] {
			err = fmt.Errorf("%s has changed: SHA-256 %s, was %s", file, got, sums[file])
		}
		errs = append(errs, err)
	}
	if f, err := image.Find(path.Join(iso.Dir, artifact.ISOLock)); err == nil {
		if lock, err := pinset.DecodeLock(f.Reader()); err == nil {
			v.Totals = lock.Totals()
			if errors.Join(errs...) == nil {
				errs = append(errs, v.medium(name, lock))
			}
			if errors.Join(errs...) == nil {
				errs = append(errs, checkProvenanceInISO(image, lock, sums))
			}
		}
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err := errors.Join(errs...); err != nil {
		return Result{}, failed(name, err)
	}
	return v, nil
}

// checkEntries checks that the sums of an ISO list what each has.
func checkEntries(sums layout.Sums) error {
	// A second medium has no config. The live ISO that it belongs to has no store.
	if sums[artifact.ISOLock] == "" || sums[artifact.ISOStore]+sums[artifact.IgnitionFile] == "" {
		return fmt.Errorf("%s has no entry for %s or %s", artifact.ISOSums, artifact.ISOLock, artifact.ISOStore)
	}
	if sums[artifact.ISOProvenance] == "" {
		return fmt.Errorf("%s has no entry for %s", artifact.ISOSums, artifact.ISOProvenance)
	}
	return nil
}

// sumInISO returns the SHA-256 of a part of an ISO. Of the store, it also compares the hash tree, and returns
// the sum with that error.
func (v *Result) sumInISO(
	ctx context.Context, image *iso.Image, file string, sums layout.Sums, hooks progress.Hooks,
) (sum string, err error) {
	if file != artifact.ISOStore {
		sum, _, err = artifact.SumInISO(ctx, image, file, hooks)
		return sum, err
	}
	f, err := image.Find(path.Join(iso.Dir, file))
	if err != nil {
		return "", err
	}
	check := verity.NewChecker(f.Size)
	if sum, v.StoreSize, err = artifact.SumReader(ctx, io.TeeReader(f.Reader(), check), hooks); err != nil {
		return "", err
	}
	v.StoreDigest = artifact.Store{Sum: sum}.Digest()
	tree, err := check.Tree()
	if errors.Is(err, verity.ErrNoTree) && sums[artifact.ISORootHash] == "" {
		return sum, nil // medium accepts that of a thin delta
	}
	if err != nil {
		return sum, fmt.Errorf("%s: %w", file, err)
	}
	v.StoreRootHash = tree.Root.Encoded()
	return sum, sameRootHash(tree, sums, artifact.ISORootHash)
}

// medium checks the store in an ISO, if there is one.
func (v *Result) medium(name string, lock pinset.Lock) error {
	store, err := artifact.FindStore(name)
	if err != nil {
		return err
	}
	d, err := openDelta(store, lock)
	if d != nil {
		v.Delta = d.verified()
	} else if err == nil {
		err = checkStore(store, lock)
	}
	if err == nil && store.File != "" && v.StoreRootHash == "" && (d == nil || d.Thin == nil) {
		err = fmt.Errorf("%s: %w", artifact.ISOStore, verity.ErrNoTree)
	}
	return err
}
