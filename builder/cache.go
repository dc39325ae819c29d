package builder

import (
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/cache"
)

// ErrCache says that the cache's folder cannot be used.
var ErrCache = errors.New("cache cannot be used")

// Cache is where layers are kept that were packed, for later builds.
type Cache struct {
	// Dir is the folder; "" keeps nothing.
	Dir string
	// Limit in bytes: after a build, what was used least recently goes. 0 for none.
	Limit int64
	// Optional says that a folder that cannot be used is worth a warning alone.
	Optional bool
}

// openCache opens what the build keeps: nothing where it cannot, which the warning tells, and nothing
// of a format that has no packed layers.
func (o *Options) openCache() (kept cache.Cache, warnings []string, err error) {
	if !o.format().Describe().UsesCache {
		o.Cache = Cache{}
	}
	if o.Cache.Dir == "" {
		return kept, nil, nil
	}
	kept, err = cache.Open(o.Cache.Dir)
	if err != nil && o.Cache.Optional {
		o.Cache = Cache{}
		return cache.Cache{}, []string{fmt.Sprintf("nothing is kept for later builds: %v: %v", ErrCache, err)}, nil
	}
	if err != nil {
		return cache.Cache{}, nil, fmt.Errorf("%w: %w", ErrCache, err)
	}
	return kept, nil, nil
}

// prune brings the folder back to its limit after a build, and tells what failed of that, unless the
// build itself did: what was built is there.
func (c Cache) prune(kept cache.Cache, built error) (warnings []string) {
	if c.Limit == 0 {
		return nil
	}
	if _, failed := kept.Prune(c.Limit); failed != nil && built == nil {
		return []string{fmt.Sprintf("the cache keeps its size: %v", failed)}
	}
	return nil
}
