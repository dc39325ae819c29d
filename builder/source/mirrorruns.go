package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrMixedRuns is returned for archives of different runs.
var ErrMixedRuns = fault.New(fault.Input, "parts of different runs of oc-mirror",
	"give every run of oc-mirror its own folder")

// openMirror opens archives and folders as one tree, in which files of the newest run of oc-mirror
// replace others. Warnings list what earlier runs were requested to copy and the newest was not.
func openMirror(ctx context.Context, paths []string) (_ *storage.Tree, warnings []string, err error) {
	var runs []mirrorRun
	tree := &storage.Tree{}
	defer func() {
		for _, run := range runs {
			err = errors.Join(err, run.tree.Close()) // trees of runs that are not in the tree yet
		}
		if err != nil {
			err = errors.Join(err, tree.Close())
		}
	}()
	archives := map[string][]string{} // the parts of each run, by folder
	for i, path := range paths {
		if filepath.Base(path) == MappingFile {
			if err := tree.AddFolder(ctx, path, fmt.Sprintf("%s%d/%s", MappingDir, i, MappingFile)); err != nil {
				return nil, nil, err
			}
			continue
		}
		tars, err := listArchives(path)
		if err != nil {
			return nil, nil, err
		}
		if len(tars) == 0 {
			run, err := openWorkspace(ctx, path)
			runs = append(runs, run)
			if err != nil {
				return nil, nil, err
			}
		}
		for _, name := range tars {
			run := filepath.Dir(name)
			if !tarPart.MatchString(filepath.Base(name)) {
				run = name
			}
			if !slices.Contains(archives[run], name) {
				archives[run] = append(archives[run], name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(archives)) {
		run, err := openArchive(ctx, archives[name])
		runs = append(runs, run)
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(runs, func(a, b mirrorRun) int { return strings.Compare(a.at, b.at) })
	if warnings, err = omittedByNewest(runs); err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		tree.AddTree(run.tree)
	}
	return tree, warnings, nil
}

// omittedByNewest compares the configurations of runs. The paths of a source should be runs of one
// configuration; a user may have mixed two.
func omittedByNewest(runs []mirrorRun) (warnings []string, err error) {
	var newest *ImageSetConfig
	for _, run := range slices.Backward(runs) {
		name, _ := NewestRun(run.tree.Names())
		if name == "" {
			continue
		}
		content, err := run.tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set, err := ParseImageSetConfig(run.from+": "+name, content)
		if err != nil {
			return nil, err
		}
		if newest == nil {
			newest = set
		} else if more := set.NotIn(newest); len(more) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s has %s, and the newest run does not request them: they are left out; "+
				"if it is another image set, make it another source", run.from, strings.Join(more, ", ")))
		}
	}
	return warnings, nil
}

var (
	tarPart = regexp.MustCompile(`^mirror_\d{6}\.tar$`)
	// workspaceDirs are folders of a working-dir, which has at least one of them.
	workspaceDirs = []string{"hold-release", "cluster-resources", "operator-catalogs"}
)

// mirrorRun is the output of one run of oc-mirror.
type mirrorRun struct {
	tree *storage.Tree
	// from is its path.
	from string
	// at is the time of the run in the names of its files; "" for a cache.
	at string
}

// listArchives lists the archives in a folder, or the file itself.
func listArchives(path string) (tars []string, err error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return []string{filepath.Clean(path)}, nil
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if tarPart.MatchString(e.Name()) && !e.IsDir() {
			tars = append(tars, filepath.Join(path, e.Name()))
		}
	}
	return tars, err
}

// openWorkspace opens a folder with the files of archives: working-dir, or a cache.
func openWorkspace(ctx context.Context, path string) (mirrorRun, error) {
	run := mirrorRun{tree: &storage.Tree{}, from: path}
	entries, err := os.ReadDir(path)
	if err != nil {
		return run, err
	}
	folders := map[string]string{} // names in the tree
	for _, e := range entries {
		switch {
		case e.Name() == "working-dir", e.Name() == "docker", strings.HasPrefix(e.Name(), "isc_2"):
			folders[filepath.Join(path, e.Name())] = e.Name()
		case slices.Contains(workspaceDirs, e.Name()):
			folders[path] = "working-dir"
		}
	}
	if len(folders) == 0 {
		return run, fmt.Errorf("%w: %s is not a working-dir, and has neither one nor mirror_000001.tar", ErrOCMirror, path)
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := run.tree.AddFolder(ctx, folder, folders[folder]); err != nil {
			return run, err
		}
	}
	_, run.at = NewestRun(run.tree.Names())
	return run, nil
}

// openArchive opens all parts of one run. oc-mirror writes a file larger than a part into a part of
// its own with the next number, and continues the part before. So the configuration, which it
// writes last, may be in any part; parts after it have one large file each: permissive_adder.go in
// internal/pkg/archive there. No file is in two parts.
func openArchive(ctx context.Context, names []string) (run mirrorRun, err error) {
	slices.Sort(names)
	run = mirrorRun{tree: &storage.Tree{}, from: names[0]}
	parts := map[string]string{} // by the files in them
	end := ""                    // the part with the configuration
	for i, name := range names {
		dir, base := filepath.Split(name)
		if part := fmt.Sprintf("mirror_%06d.tar", i+1); tarPart.MatchString(base) && base != part {
			return run, fmt.Errorf("%w: %s is missing, and %s is there", ErrOCMirror, filepath.Join(dir, part), name)
		}
		members, err := addPart(ctx, run.tree, name)
		if err != nil {
			return run, err
		}
		if what := otherArchive(members); what != "" {
			return run, fmt.Errorf("%s: %w: it is %s", name, storage.ErrWrongKind, what)
		}
		for _, member := range members {
			if other, ok := parts[member]; ok {
				return run, fmt.Errorf("%w: %s and %s both have %s", ErrMixedRuns, other, name, member)
			}
			parts[member] = name
		}
		configs := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return !strings.HasPrefix(m, "isc_") })
		switch {
		case len(configs) > 0 && end != "":
			return run, fmt.Errorf("%w: %s and %s each have an isc_*", ErrMixedRuns, end, name)
		case len(configs) > 1:
			return run, fmt.Errorf("%w: %s has %s", ErrMixedRuns, name, strings.Join(configs, " and "))
		case len(configs) > 0:
			run.at, end = strings.TrimPrefix(configs[0], "isc_"), name
		case end != "" && len(members) > 1:
			return run, fmt.Errorf("%w: the run ends in %s, and %s has more of it than one large file", ErrMixedRuns, end, name)
		}
	}
	if end == "" {
		return run, fmt.Errorf("%w: %s has no isc_*, which oc-mirror writes last: the run failed, or parts are missing",
			ErrOCMirror, strings.Join(names, ", "))
	}
	return run, nil
}

// addPart adds a tar file to a tree, and lists its files.
func addPart(ctx context.Context, tree *storage.Tree, name string) (members []string, err error) {
	part := &storage.Tree{}
	if err := part.AddTar(ctx, name); err != nil {
		return nil, errors.Join(err, part.Close())
	}
	tree.AddTree(part)
	return part.Names(), nil
}

// otherArchive describes a tar file of another known kind; "" if the kind is unknown.
func otherArchive(names []string) string {
	for _, n := range names {
		switch {
		case strings.HasPrefix(n, "publish/"):
			return "an archive of oc-mirror v1; run oc-mirror --v2"
		case n == "manifest.json" || n == "oci-layout":
			return "an archive of images; give it as such"
		}
	}
	return ""
}
