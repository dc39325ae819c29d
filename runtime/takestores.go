package runtime

import (
	"context"
	"slices"
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

// storesDue are the stores that sets with missing images name and that are to be attached now, and these images.
func storesDue(r *Reconciler, rep report) (names []string, images []pinset.Image) {
	for _, set := range rep.sets {
		try, tried := r.tries[set.Store]
		if set.Store == "" || r.TakeStore == nil || tried && time.Since(try.at) < takeAgain || !rep.lacks(set) {
			continue
		}
		images = append(images, set.Images...)
		if !slices.Contains(names, set.Store) {
			names = append(names, set.Store)
		}
	}
	return names, images
}

// takeStores attaches stores that sets name, one after the other, and calls beside meanwhile: a slow server does not
// delay what no store brings. A store that cannot be had is no fault of the set: its images are pulled.
func takeStores(ctx context.Context, r *Reconciler, rep *report, names []string, beside func()) {
	tries := map[string]storeTry{}
	for _, set := range rep.sets {
		if try, tried := r.tries[set.Store]; tried {
			tries[set.Store] = try
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, name := range names {
			err := r.TakeStore(ctx, name)
			if ctx.Err() != nil {
				return
			}
			try := storeTry{at: time.Now()}
			if err != nil {
				try.problem = truncate(strings.ReplaceAll(err.Error(), "\n", "; "))
			}
			tries[name] = try
		}
	}()
	beside()
	<-ended
	r.tries, rep.tries = tries, tries
	if r.Stores != nil {
		rep.stores, _ = r.Stores(ctx) // the next pass reports the error
	}
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
