package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/verity"
)

// medium verifies the files that pinbox added to an ISO, its Ignition config and its base.
func (v *Result) medium(ctx context.Context, r *release.Release, sums layout.Sums, hooks progress.Hooks) error {
	errs := []error{checkEntries(sums)}
	hooks.Begin("hash "+filepath.Base(v.Dir), r.Image.Size())
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		got, err := v.sumInISO(ctx, r, file, sums, hooks)
		if got != "" && got != sums[file] {
			err = fmt.Errorf("%s has changed: SHA-256 %s, was %s", file, got, sums[file])
			if file == artifact.ISOBase {
				err = fmt.Errorf("%w; damaged, or edited after pinbox made it, as by isohybrid or implantisomd5: edit the base, "+
					"and build the ISO again", err)
			}
		}
		errs = append(errs, err)
	}
	notes, err := iso.Of(r.Image).DiskNotes()
	v.Unchecked, errs = append(v.Unchecked, notes...), append(errs, err)
	lock, err := r.Lock()
	if err != nil {
		return errors.Join(errs...)
	}
	v.Totals = lock.Totals()
	if errors.Join(errs...) == nil {
		errs = append(errs, v.storeInISO(r, lock))
	}
	if errors.Join(errs...) == nil {
		errs = append(errs, checkProvenance(r, lock, sums))
	}
	return errors.Join(errs...)
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

// sumInISO returns the SHA-256 of a part of an ISO; "" if it cannot be read. Of the store, it also compares the hash
// tree, and returns the sum with that error.
func (v *Result) sumInISO(
	ctx context.Context, r *release.Release, file string, sums layout.Sums, hooks progress.Hooks,
) (sum string, err error) {
	f, err := artifact.OpenPart(r, file)
	if err != nil {
		return "", err
	}
	if file != artifact.ISOStore {
		sum, _, err = artifact.SumReader(ctx, f, hooks)
		return sum, err
	}
	check := verity.NewChecker(f.Size)
	if sum, v.StoreSize, err = artifact.SumReader(ctx, io.TeeReader(f, check), hooks); err != nil {
		return "", err
	}
	v.StoreDigest = artifact.Store{Sum: sum}.Digest()
	tree, err := check.Tree()
	if errors.Is(err, verity.ErrNoTree) && sums[artifact.ISORootHash] == "" {
		return sum, nil // storeInISO accepts that of a thin delta
	}
	if err != nil {
		return sum, fmt.Errorf("%s: %w", file, err)
	}
	v.StoreRootHash = tree.Root.Encoded()
	return sum, sameRootHash(tree, sums, artifact.ISORootHash)
}

// storeInISO checks the store in an ISO, if there is one.
func (v *Result) storeInISO(r *release.Release, lock pinset.Lock) error {
	store, err := r.Store()
	if err != nil || store == nil {
		return err
	}
	d, err := openDelta(store, lock)
	if d != nil {
		v.Delta = d.verified()
	} else if err == nil {
		err = checkStore(store, lock)
	}
	if err == nil && v.StoreRootHash == "" && (d == nil || d.Thin == nil) {
		err = fmt.Errorf("%s: %w", artifact.ISOStore, verity.ErrNoTree)
	}
	return err
}
