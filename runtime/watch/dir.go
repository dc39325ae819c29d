package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ReadSets reads the sets of a folder; a file has one or several. A file that cannot be read is a
// pinset.FileError, returned with the sets of the other files, and never an empty set. So is a file
// that the cluster would refuse, for a duplicate image or set.
func ReadSets(fsys fs.FS) ([]pinset.Set, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var sets []pinset.Set
	var errs []error
	for _, e := range entries {
		if e.IsDir() || !isSet(e.Name()) {
			continue
		}
		content, err := read(fsys, e.Name())
		more, err := decode(content, err, e.Name(), sets)
		if err != nil {
			errs = append(errs, &pinset.FileError{File: e.Name(), Revision: digest.FromBytes(content).String(), Err: err})
		}
		sets = append(sets, more...)
	}
	return sets, errors.Join(errs...)
}

// maxFile is the size of the largest file, in bytes: a set has 500 images of 447 bytes at most, and each value of
// JSON or YAML takes many times its bytes.
const maxFile = 4 << 20

func read(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s: more than %d MiB: make several files of it", name, maxFile>>20)
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

// isSet excludes backups, hidden files and locks.
func isSet(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name))) &&
		!strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".lock.json")
}

func decode(content []byte, err error, name string, before []pinset.Set) ([]pinset.Set, error) {
	if err != nil {
		return nil, err
	}
	sets, others, err := pinset.DecodeSets(bytes.NewReader(content), name)
	errs := []error{err}
	if err == nil && len(sets) == 0 { // perhaps incomplete, while somebody copies it
		errs = append(errs, fmt.Errorf("%s: it has no PinnedImageSet, but %d objects of other kinds", name, others))
	}
	for i, s := range sets {
		if len(s.Duplicates) > 0 {
			errs = append(errs, fmt.Errorf("%s: set %q: spec.pinnedImages: Duplicate value: %q", s.Origin, s.Name,
				s.Duplicates[0].String()))
		}
		same := func(o pinset.Set) bool { return o.Name == s.Name }
		if slices.ContainsFunc(before, same) || slices.ContainsFunc(sets[:i], same) {
			errs = append(errs, fmt.Errorf("%s: %w: %q", s.Origin, pinset.ErrDuplicateSet, s.Name))
		}
	}
	err = errors.Join(errs...)
	if f := fault.Of(err); f != nil { // a problem of the node, and not of what a command was given
		err = fault.With(err, fault.Other, f.Hint)
	}
	if err != nil {
		return nil, err
	}
	return sets, nil
}

// ForPools returns the sets for a node of these pools: the sets with the role label of one of them,
// and the sets without that label. No pools means every set.
func ForPools(sets []pinset.Set, pools []string) []pinset.Set {
	if len(pools) == 0 {
		return sets
	}
	return slices.DeleteFunc(slices.Clone(sets), func(s pinset.Set) bool {
		role, ok := s.Labels[pinset.RoleLabel]
		return ok && !slices.Contains(pools, role)
	})
}
