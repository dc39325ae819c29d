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

// prune brings the folder back to its limit.
func (c Cache) prune() error {
	kept, err := c.open()
	if err != nil || c.Limit == 0 {
		return err
	}
	_, err = kept.Prune(c.Limit)
	return err
}
