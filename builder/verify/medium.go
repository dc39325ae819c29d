package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
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
			if file == layout.MediumBase {
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
	if sums[layout.MediumLock] == "" || sums[layout.MediumStore]+sums[artifact.IgnitionFile] == "" {
		return fmt.Errorf("%s has no entry for %s or %s", layout.MediumSums, layout.MediumLock, layout.MediumStore)
	}
	if sums[layout.ProvenanceFile] == "" {
		return fmt.Errorf("%s has no entry for %s", layout.MediumSums, layout.ProvenanceFile)
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
	if file != layout.MediumStore {
		sum, _, err = artifact.SumReader(ctx, f, hooks)
		return sum, err
	}
	check := verity.NewChecker(f.Size)
	if sum, v.StoreSize, err = artifact.SumReader(ctx, io.TeeReader(f, check), hooks); err != nil {
		return "", err
	}
	v.StoreDigest = artifact.Store{Sum: sum}.Digest()
	tree, err := check.Tree()
	if errors.Is(err, verity.ErrNoTree) && sums[layout.MediumRootHash] == "" {
		return sum, nil // storeInISO accepts that of a thin delta
	}
	if err != nil {
		return sum, fmt.Errorf("%s: %w", file, err)
	}
	v.StoreRootHash = tree.Root.Encoded()
	return sum, sameRootHash(tree, sums, layout.MediumRootHash)
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
		err = fmt.Errorf("%s: %w", layout.MediumStore, verity.ErrNoTree)
	}
	return err
}

// recordsInParts is what is not checked of a store in parts.
const recordsInParts = "what the store has inside, as it is in parts: verify the folder that they were made of"

// split verifies a folder with a store in parts. The parts are read once, as one.
func (v *Result) split(ctx context.Context, r *release.Release, sums layout.Sums, hooks progress.Hooks) error {
	dir, name := v.Dir, r.Names.Store
	got := layout.Sums{}
	store, err := v.joined(ctx, r, hooks)
	if store.Sum != "" {
		got[name] = store.Sum
	}
	if err == nil && !store.Tree.IsZero() {
		err = sameRootHash(store.Tree, sums, r.Names.RootHash)
	}
	if _, failed := os.Lstat(filepath.Join(dir, name)); failed == nil { // it is not compared with its sum
		err = errors.Join(err, fmt.Errorf("%s is there in parts, and as one file", name))
	}
	errs := []error{err, v.addListed(ctx, dir, name, sums, got, hooks), differences(sums, got)}
	lock, err := r.Lock()
	if errs = append(errs, err); errors.Join(errs...) == nil {
		v.Totals, v.Unchecked = lock.Totals(), append(v.Unchecked, recordsInParts)
		errs = append(errs, checkProvenance(r, lock, sums))
	}
	return errors.Join(errs...)
}

// addListed adds the sums of the other files that are listed. The folder may be a stick, with files of others: they
// are counted, and not read.
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
		whole, _ := layout.CutPart(name)
		switch {
		case name == layout.SumsFile || whole == store || signs(name, want):
		case want[name] != "":
			if got[name], err = artifact.SumFile(ctx, filepath.Join(dir, name), hooks); err != nil {
				return err
			}
		default:
			others++
		}
	}
	if others > 0 {
		v.Unchecked = append(v.Unchecked, fmt.Sprintf("%d other files and folders, which are not in %s", others,
			layout.SumsFile))
	}
	return nil
}

// joined reads the parts of a store as one, and returns the store.
func (v *Result) joined(
	ctx context.Context, r *release.Release, hooks progress.Hooks,
) (store artifact.Store, err error) {
	name := r.Names.Store
	f, err := r.StoreBytes()
	if err != nil {
		return store, err
	}
	defer f.Close()
	hooks.Begin("hash the parts of "+name, f.Size)
	check := verity.NewChecker(f.Size)
	store = artifact.Store{Name: name, Size: f.Size}
	if store.Sum, _, err = artifact.SumReader(ctx, io.TeeReader(f, check), hooks); err != nil {
		return store, err
	}
	if store.Tree, err = check.Tree(); err != nil && name != layout.ThinStoreFile {
		return store, fmt.Errorf("%s: %w", name, err)
	}
	v.StoreSize, v.StoreDigest, v.StoreRootHash = store.Size, store.Digest(), store.RootHash()
	return store, nil
}
