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
func (p *pass) storesDue() (names []string, images []pinset.Image) {
	for _, set := range p.rep.sets {
		try, tried := p.r.tries[set.Store]
		if set.Store == "" || p.r.Stores == nil || tried && time.Since(try.at) < takeAgain || !p.rep.lacks(set) {
			continue
		}
		images = append(images, set.Images...)
		if !slices.Contains(names, set.Store) {
			names = append(names, set.Store)
		}
	}
	return names, images
}

// takeStores begins to attach stores that sets name, one after the other. The channel has all tries once they have
// ended. A store that cannot be had is no fault of the set: its images are pulled.
func (p *pass) takeStores(ctx context.Context, names []string) <-chan map[string]storeTry {
	tries := map[string]storeTry{}
	for _, set := range p.rep.sets {
		if try, tried := p.r.tries[set.Store]; tried {
			tries[set.Store] = try
		}
	}
	ended := make(chan map[string]storeTry, 1)
	go func() {
		defer func() { ended <- tries }()
		for _, name := range names {
			err := p.r.Stores.Take(ctx, name)
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
	return ended
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
