package builder

import (
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/builder/spec"
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

// settle finds out what the build will keep: nothing where it cannot, which the
// warning tells, and nothing of a store that the library writes.
func (o *Options) settle() (warnings []string, err error) {
	if o.Appliance.Spec.Store.Format == spec.FormatDir {
		o.Cache = Cache{}
	}
	_, err = o.Cache.open()
	if err != nil && o.Cache.Optional {
		o.Cache = Cache{}
		return []string{fmt.Sprintf("nothing is kept for later builds: %v", err)}, nil
	}
	return nil, err
}

func (c Cache) open() (cache.Cache, error) {
	if c.Dir == "" {
		return cache.Cache{}, nil
	}
	kept, err := cache.Open(c.Dir)
	if err != nil {
		return cache.Cache{}, fmt.Errorf("%w: %w", ErrCache, err)
	}
	return kept, nil
}

// tidy prunes the folder after a build, and tells what failed of that, unless the build
// itself did: what was built is there.
func (c Cache) tidy(built error) (warnings []string) {
	if failed := c.prune(); failed != nil && built == nil {
		return []string{fmt.Sprintf("the cache keeps its size: %v", failed)}
	}
	return nil
}

// prune brings the folder back to its limit.
func (c Cache) prune() error {
	kept, err := c.open()
	if err != nil || c.Limit == 0 {
		return err
	}
	_, err = kept.Prune(c.Limit)
	return err
}
