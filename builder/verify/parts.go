package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/verity"
)

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
		case name == artifact.SumsFile || whole == store || signs(name, want):
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
			artifact.SumsFile))
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
	if store.Tree, err = check.Tree(); err != nil && name != artifact.ThinStoreFile {
		return store, fmt.Errorf("%s: %w", name, err)
	}
	v.StoreSize, v.StoreDigest, v.StoreRootHash = store.Size, store.Digest(), store.RootHash()
	return store, nil
}
