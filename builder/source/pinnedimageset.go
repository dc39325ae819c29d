package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoSets is returned for an input without sets.
var ErrNoSets = fault.New(fault.Input, "no PinnedImageSet found",
	"name a file or a folder with PinnedImageSet objects")

// PinnedImageSets are files, or folders of files, of PinnedImageSet objects.
type PinnedImageSets []string

func (l *PinnedImageSets) add(path string) { *l = append(*l, path) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *PinnedImageSets) UnmarshalYAML(decode func(any) error) error {
	return decode((*[]string)(l))
}

// Validate implements Source.
func (l *PinnedImageSets) Validate() error { return nil }

// PathFields implements Source.
func (l *PinnedImageSets) PathFields() []*string { return pointers(*l) }

// Read returns the paths only: the function Read reads the sets of all sources together.
func (l *PinnedImageSets) Read(context.Context, Options) (Content, error) {
	return Content{setPaths: *l}, nil
}

// ReadSets reads sets from files, and from all files in folders that end in .yaml, .yml or .json.
// Sets are sorted by name. Warnings describe what the cluster's API would refuse, and what was left
// out.
func ReadSets(ctx context.Context, paths []string) (sets []pinset.Set, warnings []string, err error) {
	err = readFiles(ctx, paths, ErrNoSets, func(file string, content io.Reader) (int, error) {
		more, others, err := pinset.DecodeSets(content, file)
		if others > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %d objects of other kinds are left out", file, others))
		}
		sets = append(sets, more...)
		return len(more), err
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(sets, func(a, b pinset.Set) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range sets {
		if i > 0 && s.Name == sets[i-1].Name {
			return nil, nil, fmt.Errorf("%s: %w: %q, also in %s", s.Origin, pinset.ErrDuplicateSet, s.Name, sets[i-1].Origin)
		}
		warnings = append(warnings, s.Warnings()...)
	}
	return sets, warnings, nil
}

// readFiles reads files, and all files in folders that end in .yaml, .yml or .json, each once. read returns how many
// objects a file has, and a path without any is the error none. All files are read, whatever is wrong with one.
func readFiles(
	ctx context.Context, paths []string, none error, read func(file string, content io.Reader) (objects int, err error),
) error {
	var errs []error
	seen := map[string]int{} // objects by file
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found := 0
		for _, file := range files {
			clean := filepath.Clean(file)
			objects, known := seen[clean]
			if !known {
				if objects, err = readFile(ctx, file, path, read); err != nil {
					errs, objects = append(errs, err), 1
				}
				seen[clean] = objects
			}
			found += objects
		}
		if found == 0 {
			errs = append(errs, fmt.Errorf("%s: %w", path, none))
		}
	}
	return errors.Join(errs...)
}

func readFile(
	ctx context.Context, file, path string, read func(file string, content io.Reader) (objects int, err error),
) (objects int, err error) {
	f, err := open(ctx, file, path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return read(file, f)
}

// open opens a file of a path that a user names, which may be a pipe, or "-"; a file of a folder may not.
func open(ctx context.Context, file, path string) (io.ReadCloser, error) {
	if file == path {
		return input.Named(ctx, path)
	}
	return input.Open(file)
}

// hasObjects reports whether a file is YAML or JSON, by its name.
func hasObjects(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// expand lists the files of a folder, or the file itself.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	var files []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != path && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && (p == path || hasObjects(p)):
			files = append(files, p)
		}
		return nil
	})
	return files, err
}
