package builder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// OCMirrorSource is what oc-mirror v2 has left.
type OCMirrorSource struct {
	// Paths are archives (mirror_000001.tar), folders of them, workspaces, folders of
	// its cache, and mapping.txt of a dry run. Archives that have only what is new need
	// the earlier ones beside them. Without paths the images come from registries.
	Paths []string `yaml:"paths,omitempty"`
	// Stores are folders of earlier stores that have what the archives have not: of
	// podman, of CRI-O, or a mounted one of pinbox.
	Stores []string `yaml:"stores,omitempty"`
	// Config is an ImageSetConfiguration; the newest in the paths if left out.
	Config string `yaml:"config,omitempty"`
	// Exclude images that belong to no release: by their names, their repositories, or
	// repository:tag as oc-mirror keeps them; * and ? stand for anything but a /.
	Exclude []string `yaml:"exclude,omitempty"`
	// Components to take of each release; all that CRI-O pulls if left out.
	Components Components `yaml:"components,omitempty"`
	// MachineOS takes the nodes' operating system as well, which CRI-O never pulls.
	MachineOS bool `yaml:"machineOS,omitempty"`
	// Signatures of the releases that must hold; those in the paths count too.
	Signatures Signatures `yaml:"signatures,omitempty"`
}

// What can be wrong with an input of oc-mirror.
var (
	// An ImageSetConfiguration is not enough.
	ErrOnlyOCMirror = errors.New("only oc-mirror can follow")
	ErrTwoRuns      = errors.New("parts of different runs of oc-mirror")
)

func (m OCMirrorSource) validate() error {
	switch {
	case len(m.Paths) == 0 && m.Config == "":
		return errors.New("has neither paths nor a config")
	case len(m.Paths) == 0 && len(m.Stores) > 0:
		return errors.New("has stores without paths that they could complete")
	case len(m.Paths) == 0 && len(m.Exclude) > 0:
		return errors.New("has exclude without paths; blockedImages of the config are left out")
	case m.Signatures.given() && len(m.Signatures.Keys) == 0:
		return errors.New("has signatures without keys")
	}
	for _, p := range m.Exclude {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("has the exclude pattern %q: %w", p, err)
		}
	}
	return nil
}

// ocMirror reads the names of images, and where they are.
func (in *inputs) ocMirror(ctx context.Context, s Source, set, appliance string, platform pinset.Platform) error {
	config, err := s.OCMirror.readConfig()
	if err != nil {
		return err
	}
	if len(s.OCMirror.Paths) == 0 {
		return in.imageSet(s, config, set, appliance)
	}
	tree, left, err := openMirror(ctx, s.OCMirror.Paths)
	if err != nil {
		return err
	}
	if s.OCMirror.Config == "" {
		in.warnings = append(in.warnings, left...)
	}
	in.files = append(in.files, tree)
	stores, err := openStores(s.OCMirror.Stores)
	if err != nil {
		return err
	}
	images, err := storage.ReadDistribution(tree, strings.Join(s.OCMirror.Paths, ", "), stores...)
	if err != nil {
		return err
	}
	mirror, err := source.ReadOCMirror(tree, images.Tags, source.Wanted{Config: config, Exclude: s.OCMirror.Exclude, Platform: platform})
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(s.OCMirror.Paths, ", "), err)
	}
	in.warnings = append(in.warnings, mirror.Warnings...)
	if len(images.Tags) == 0 { // of mirror to mirror: the registries have them
		in.whyAsked = append(in.whyAsked, strings.Join(s.OCMirror.Paths, ", ")+" has the names of images and none of the images, so the registries are asked: add mirror_*.tar or the cache of oc-mirror to the paths, or its cluster-resources to the mirrors")
		images = nil
	}
	in.mirrored(s, mirror, images, asked{set: set, pools: s.Pools, origin: s.OCMirror.Paths[0]})
	return in.mirroredReleases(s, mirror, tree, images, appliance)
}

func (m OCMirrorSource) readConfig() (*source.ImageSet, error) {
	if m.Config == "" {
		return nil, nil
	}
	content, err := os.ReadFile(m.Config)
	if err != nil {
		return nil, err
	}
	return source.ParseImageSet(m.Config, content)
}

// imageSet takes from registries what a configuration names.
func (in *inputs) imageSet(s Source, config *source.ImageSet, set, appliance string) error {
	if fields := config.Elsewhere(); len(fields) > 0 {
		return fmt.Errorf("%s: %w %s", s.OCMirror.Config, ErrOnlyOCMirror, strings.Join(fields, ", "))
	}
	names, err := config.Images()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		in.asked = append(in.asked, asked{set, s.Pools, s.OCMirror.Config, names})
	}
	if image := config.Mirror.Platform.Release; image != "" {
		in.releases = append(in.releases, release{Source: s.releaseOf(image), set: appliance})
	}
	return nil
}

// releaseOf is the source that a release by itself would be.
func (s Source) releaseOf(image string) Source {
	m := s.OCMirror
	return Source{Release: ReleaseSource{Image: image, Components: m.Components, MachineOS: m.MachineOS, Signatures: m.Signatures}, Set: s.Set, Pools: s.Pools}
}

// mirrored takes images that belong to no release.
func (in *inputs) mirrored(s Source, mirror source.OCMirror, images *storage.Distribution, a asked) {
	if len(mirror.Images) == 0 {
		return
	}
	var locals []local
	for _, m := range mirror.Images {
		if images == nil {
			name := m.Reference
			name.Digest = m.Stored // a digest is what the mirrors know best
			a.names = append(a.names, source.Named{Reference: name, Origin: a.origin})
			continue
		}
		name := m.Reference
		name.Digest = ""
		locals = append(locals, local{name, sparse(images.Image(name.String(), m.Stored), m.Dropped)})
	}
	if images == nil {
		in.asked = append(in.asked, a)
		return
	}
	in.locals = append(in.locals, found{a, locals})
}

// sparse is an image of which a field has left out some instances, "" for none.
func sparse(img storage.Found, field string) storage.Found {
	if field == "" {
		return img
	}
	return img.Sparse(fmt.Errorf("%w: %s", source.ErrDropped, field))
}

// mirroredReleases takes releases, and their signatures.
func (in *inputs) mirroredReleases(s Source, mirror source.OCMirror, tree *storage.Tree, images *storage.Distribution, appliance string) error {
	var signatures [][]byte
	for _, name := range tree.Names() {
		if !strings.HasPrefix(name, "working-dir/signatures/") {
			continue
		}
		content, err := tree.ReadFile(name)
		if err != nil {
			return err
		}
		signatures = append(signatures, content)
	}
	for _, m := range mirror.Releases {
		r := release{set: appliance, images: images, signatures: signatures, blocks: mirror.Blocks, tag: m.TagName(), dropped: m.Dropped}
		image := m.Reference
		if m.Stored != "" {
			image.Tag, image.Digest = "", m.Stored
		}
		r.Source = s.releaseOf(image.String())
		var err error
		if r.references, err = tree.ReadFile(m.References); err != nil {
			return err
		}
		in.releases = append(in.releases, r)
	}
	return nil
}

// openMirror opens archives and folders as one tree, in which the newest run of
// oc-mirror counts.
// Warnings tell what earlier runs were asked for and the newest is not.
func openMirror(ctx context.Context, paths []string) (_ *storage.Tree, warnings []string, err error) {
	var runs []mirrorRun
	tree := &storage.Tree{}
	defer func() {
		for _, run := range runs {
			err = errors.Join(err, run.tree.Close()) // of what the tree has not taken
		}
		if err != nil {
			err = errors.Join(err, tree.Close())
		}
	}()
	archives := map[string][]string{} // by their folders: the parts of one run each
	for i, path := range paths {
		if filepath.Base(path) == source.MappingFile {
			if err := tree.AddFolder(ctx, path, fmt.Sprintf("%s%d/%s", source.MappingDir, i, source.MappingFile)); err != nil {
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
	if warnings, err = leftOut(runs); err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		tree.AddTree(run.tree)
	}
	return tree, warnings, nil
}

// leftOut compares the configurations of runs: paths of one source are runs of one
// image set, and a user may have taken another one for that.
func leftOut(runs []mirrorRun) (warnings []string, err error) {
	var newest *source.ImageSet
	for _, run := range slices.Backward(runs) {
		name, _ := source.NewestRun(run.tree.Names())
		if name == "" {
			continue
		}
		content, err := run.tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set, err := source.ParseImageSet(run.from+": "+name, content)
		if err != nil {
			return nil, err
		}
		if newest == nil {
			newest = set
		} else if more := set.Beyond(newest); len(more) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s was asked for %s, and the newest run is not: they are left out; if it is another image set, make it another source", run.from, strings.Join(more, ", ")))
		}
	}
	return warnings, nil
}

var (
	tarPart = regexp.MustCompile(`^mirror_\d{6}\.tar$`)
	// Folders that a working-dir has one of at least.
	workspaceDirs = []string{"hold-release", "cluster-resources", "operator-catalogs"}
)

// mirrorRun is what a run of oc-mirror has left.
type mirrorRun struct {
	tree *storage.Tree
	// from is where it is.
	from string
	// at is the time of the run, as it stands in its files; "" for a cache alone.
	at string
}

// listArchives lists the archives in a folder; a file stands for itself.
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

// openWorkspace opens a folder of what archives have too: working-dir, or a cache.
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
		return run, fmt.Errorf("%w: %s has neither mirror_000001.tar nor working-dir, and is none", source.ErrOCMirror, path)
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := run.tree.AddFolder(ctx, folder, folders[folder]); err != nil {
			return run, err
		}
	}
	_, run.at = source.NewestRun(run.tree.Names())
	return run, nil
}

// openArchive wants all parts of one run. oc-mirror gives a file that is larger than a
// part the next number, and goes on with the part before; so the configuration, which
// comes last, stands in any of them, and after it only such files: permissive_adder.go in
// internal/pkg/archive there. No file is in two parts.
func openArchive(ctx context.Context, names []string) (run mirrorRun, err error) {
	slices.Sort(names)
	run = mirrorRun{tree: &storage.Tree{}, from: names[0]}
	parts := map[string]string{} // by what is in them
	end := ""                    // the part with the configuration
	for i, name := range names {
		if part := fmt.Sprintf("mirror_%06d.tar", i+1); tarPart.MatchString(filepath.Base(name)) && filepath.Base(name) != part {
			return run, fmt.Errorf("%w: %s is not there, and %s is", source.ErrOCMirror, filepath.Join(filepath.Dir(name), part), name)
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
				return run, fmt.Errorf("%w: %s and %s both have %s", ErrTwoRuns, other, name, member)
			}
			parts[member] = name
		}
		configs := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return !strings.HasPrefix(m, "isc_") })
		switch {
		case len(configs) > 0 && end != "":
			return run, fmt.Errorf("%w: %s and %s each have an isc_*", ErrTwoRuns, end, name)
		case len(configs) > 1:
			return run, fmt.Errorf("%w: %s has %s", ErrTwoRuns, name, strings.Join(configs, " and "))
		case len(configs) > 0:
			run.at, end = strings.TrimPrefix(configs[0], "isc_"), name
		case end != "" && len(members) > 1:
			return run, fmt.Errorf("%w: the run ends in %s, and %s has more of it than one large file", ErrTwoRuns, end, name)
		}
	}
	if end == "" {
		return run, fmt.Errorf("%w: %s has no isc_*, which oc-mirror writes last: the run failed, or parts are missing", source.ErrOCMirror, strings.Join(names, ", "))
	}
	return run, nil
}

// addPart adds a tar file to a tree, and lists what is in it.
func addPart(ctx context.Context, tree *storage.Tree, name string) (members []string, err error) {
	part := &storage.Tree{}
	if err := part.AddTar(ctx, name); err != nil {
		return nil, errors.Join(err, part.Close())
	}
	tree.AddTree(part)
	return part.Names(), nil
}

// otherArchive tells tar files of other kinds by what is in them.
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
