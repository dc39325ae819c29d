package runtime

import (
	"context"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// takeAgain is how long the store that a set names is not asked for again, whatever came of it: what it lacks is
// pulled, and so is all of it while it cannot be had.
const takeAgain = time.Hour

// storeTry is an attempt to attach the store that a set names.
type storeTry struct {
	at      time.Time
	problem string // "" if it was attached
}

// takeStores attaches the stores that sets with missing images name, and reports whether one was attached. A store
// that cannot be had is no fault of the set: its images are pulled.
func takeStores(ctx context.Context, r *Reconciler, rep *report) (taken bool) {
	tries := map[string]storeTry{}
	for _, set := range rep.sets {
		if set.Store == "" || r.TakeStore == nil {
			continue
		}
		try, tried := tries[set.Store]
		if !tried {
			try, tried = r.tries[set.Store]
		}
		if (!tried || time.Since(try.at) >= takeAgain) && rep.lacks(set) {
			err := r.TakeStore(ctx, set.Store)
			if ctx.Err() != nil {
				break
			}
			try, tried, taken = storeTry{at: time.Now()}, true, taken || err == nil
			if err != nil {
				try.problem = truncate(strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		}
		if tried {
			tries[set.Store] = try
		}
	}
	r.tries, rep.tries = tries, tries
	if taken && r.Stores != nil {
		rep.stores, _ = r.Stores(ctx) // the next pass reports the error
	}
	return taken
}

// lacks reports whether an image of a set is not on the node.
func (r report) lacks(set pinset.Set) bool {
	for _, img := range set.Images {
		if _, present := r.present[img.String()]; !present {
			return true
		}
	}
	return false
}

// storeError is why the store that a set names was not attached; "" if it was, or was not needed.
func (r report) storeError(set pinset.Set, before SetStatus) string {
	if try, tried := r.tries[set.Store]; tried {
		return try.problem
	}
	if before.Store == set.Store {
		return before.StoreError
	}
	return ""
}
