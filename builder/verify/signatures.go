package verify

import (
	"context"
	"fmt"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// Signatures checks the signature of the store of a release, if it has one. That of the sums, which covers all files
// once Release has compared them, was checked when the release was opened with the keys. It returns the names of the
// files with good signatures.
func Signatures(
	ctx context.Context, r *release.Release, keys signature.Keys, hooks progress.Hooks,
) (good []string, err error) {
	good = []string{r.Names.Sums}
	proof, err := r.Signature(r.Names.Store)
	if proof == nil || r.Names.Store == "" {
		return good, err
	}
	store, err := r.StoreBytes()
	if release.IsMissing(err) && r.Form == release.Medium { // it is on a second medium
		return good, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	defer store.Close()
	hooks.Begin("verify the signature of "+r.Names.Store, store.Size)
	sum, _, err := artifact.SumReader(ctx, store, hooks)
	if err == nil {
		err = keys.Verify(layout.StoreSums(sum), proof)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", r.Name, r.Names.Store, err)
	}
	return append(good, r.Names.Store), nil
}
