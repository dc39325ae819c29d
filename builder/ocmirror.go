package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What can be wrong with an input of oc-mirror.
var (
	// An ImageSetConfiguration is not enough.
	ErrOnlyOCMirror = errors.New("only oc-mirror can follow")
	ErrTwoRuns      = errors.New("parts of different runs of oc-mirror")
)

// ocMirror reads the names of images, and where they are.
func (in *inputs) ocMirror(ctx context.Context, s spec.Source, set, appliance string, platform pinset.Platform) error {
	config, err := readConfig(s.OCMirror)
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

func readConfig(m spec.OCMirrorSource) (*source.ImageSet, error) {
	if m.Config == "" {
		return nil, nil
	}
	f, err := os.Open(m.Config)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := document.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.Config, source.ErrImageSet, err)
	}
	return source.ParseImageSet(m.Config, content)
}

// imageSet takes from registries what a configuration names.
func (in *inputs) imageSet(s spec.Source, config *source.ImageSet, set, appliance string) error {
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
		in.releases = append(in.releases, release{Source: releaseOf(s, image), set: appliance})
	}
	return nil
}

// releaseOf is the source that a release by itself would be.
func releaseOf(s spec.Source, image string) spec.Source {
	m := s.OCMirror
	return spec.Source{Release: spec.ReleaseSource{Image: image, Components: m.Components, MachineOS: m.MachineOS, Signatures: m.Signatures}, Set: s.Set, Pools: s.Pools}
}

// mirrored takes images that belong to no release.
func (in *inputs) mirrored(s spec.Source, mirror source.MirrorContent, images *storage.Distribution, a asked) {
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
func (in *inputs) mirroredReleases(s spec.Source, mirror source.MirrorContent, tree *storage.Tree, images *storage.Distribution, appliance string) error {
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
		r.Source = releaseOf(s, image.String())
		var err error
		if r.references, err = tree.ReadFile(m.References); err != nil {
			return err
		}
		in.releases = append(in.releases, r)
	}
	return nil
}
