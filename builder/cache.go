package builder

import (
	"fmt"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrCache says that the cache's folder cannot be used.
var ErrCache = fault.New(fault.Usage, "cache cannot be used",
	"name a folder with --cache-dir, or build with --no-cache")

// Cache says where packs are kept for later builds.
type Cache struct {
	// Dir is the cache's folder; "" means no cache.
	Dir string
	// Limit is the size in bytes above which a build removes the packs that were not used for the longest
	// time; 0 means no limit.
	Limit int64
	// Optional makes it a warning that the folder cannot be used, and not an error.
	Optional bool
}

// open opens the cache, if there is one.
func (c *Cache) open() (packs cache.Cache, warnings []string, err error) {
	if c.Dir == "" {
		return packs, nil, nil
	}
	packs, err = cache.Open(c.Dir)
	if err != nil && c.Optional {
		*c = Cache{}
		return cache.Cache{}, []string{fmt.Sprintf("nothing is kept for later builds: %v: %v", ErrCache, err)}, nil
	}
	if err != nil {
		return cache.Cache{}, nil, fmt.Errorf("%w: %w", ErrCache, err)
	}
	return packs, nil, nil
}

// prune removes packs above the limit after a build. If the build succeeded, a failure is a warning.
func (c Cache) prune(packs cache.Cache, built error) (warnings []string) {
	if c.Limit == 0 {
		return nil
	}
	if _, failed := packs.Prune(c.Limit); failed != nil && built == nil {
		return []string{fmt.Sprintf("the cache keeps its size: %v", failed)}
	}
	return nil
}
