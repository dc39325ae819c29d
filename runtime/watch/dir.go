// Package watch finds the PinnedImageSets that a node has to follow.
package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Dir reads the sets of a folder, a .yaml file each or several. A file that
// cannot be read is an error beside the sets of the others, never an empty set.
func Dir(fsys fs.FS) ([]pinset.Set, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var sets []pinset.Set
	var errs []error
	for _, e := range entries {
		if e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
			continue
		}
		more, err := read(fsys, e.Name())
		sets, errs = append(sets, more...), append(errs, err)
	}
	return sets, errors.Join(errs...)
}

func read(fsys fs.FS, name string) ([]pinset.Set, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sets, _, err := pinset.DecodeSets(f, name)
	if err != nil {
		return nil, fmt.Errorf("sets: %w", err)
	}
	return sets, nil
}

// ForPools keeps the sets that are for a node of these pools: those with the
// role label of one of them, and those without it. No pools means every set.
func ForPools(sets []pinset.Set, pools []string) []pinset.Set {
	if len(pools) == 0 {
		return sets
	}
	return slices.DeleteFunc(slices.Clone(sets), func(s pinset.Set) bool {
		role, ok := s.Labels[pinset.RoleLabel]
		return ok && !slices.Contains(pools, role)
	})
}
