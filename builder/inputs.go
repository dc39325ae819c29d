package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// inputs are what the sources ask for.
type inputs struct {
	sets []pinset.Set
	// asked are names, some of which a registry has to resolve.
	asked []asked
	// tags by which images were asked for.
	tags     map[pinset.Image][]string
	warnings []string
}

// asked are images that become a set.
type asked struct {
	set   string
	pools []string
	names []source.Named
}

// readSources reads all sources, and asks nobody.
func readSources(a Appliance) (in inputs, err error) {
	var paths []string
	for i, s := range a.Spec.Sources {
		paths = append(paths, s.PinnedImageSets...)
		names, err := s.names(i)
		if err != nil {
			return inputs{}, err
		}
		if len(names) > 0 {
			in.asked = append(in.asked, asked{cmp.Or(s.Set, a.Metadata.Name+"-images"), s.Pools, names})
		}
	}
	in.sets, in.warnings, err = source.PinnedImageSets(paths)
	return in, err
}

// names are those that the source lists by any name.
func (s Source) names(number int) (names []source.Named, err error) {
	names, err = source.ParseNames(s.Images, fmt.Sprintf("spec.sources[%d].images", number))
	errs := []error{err}
	for _, path := range s.ImageLists {
		more, err := source.ReadList(path)
		names, errs = append(names, more...), append(errs, err)
	}
	return names, errors.Join(errs...)
}

// pin makes sets of the names that were asked for. Those in the lock stay what
// they were.
func (in *inputs) pin(ctx context.Context, client *storage.Client, lock pinset.Lock, hooks Hooks) error {
	var names []source.Named
	for _, a := range in.asked {
		names = append(names, a.names...)
	}
	locked := lock.ByTag()
	refs := make([]pinset.Reference, len(names))
	for i, n := range names {
		refs[i] = n.Reference
		if img, ok := locked[n.TagName()]; ok {
			refs[i].Digest = img.Digest
		}
	}
	hooks.step("resolve tags", int64(len(refs)))
	images, err := client.Pin(ctx, refs, func() { hooks.done(1) })
	if err != nil {
		return err
	}
	in.tags = map[pinset.Image][]string{}
	for i, n := range names {
		if tag := n.TagName(); tag != "" {
			in.tags[images[i]] = append(in.tags[images[i]], tag)
		}
	}
	for img, tags := range in.tags {
		slices.Sort(tags)
		in.tags[img] = slices.Compact(tags)
	}
	for _, a := range in.asked {
		in.add(a, images[:len(a.names)])
		images = images[len(a.names):]
	}
	return in.check()
}

// add makes sets of what was asked for: one for every node, or one for each pool.
func (in *inputs) add(a asked, images []pinset.Image) {
	named := func(name string, labels map[string]string) {
		i := slices.IndexFunc(in.sets, func(s pinset.Set) bool { return s.Name == name && s.Generated })
		if i < 0 {
			i = len(in.sets)
			in.sets = append(in.sets, pinset.Set{Name: name, Labels: labels, Generated: true, Origin: a.names[0].Origin})
		}
		s := &in.sets[i]
		s.Images = pinset.Union(*s, pinset.Set{Images: images})
	}
	if len(a.pools) == 0 {
		named(a.set, nil)
	}
	for _, pool := range a.pools {
		named(a.set+"-"+pool, map[string]string{pinset.RoleLabel: pool})
	}
}

// check finds names that are used twice, and what the cluster's API would refuse.
func (in *inputs) check() error {
	slices.SortStableFunc(in.sets, func(a, b pinset.Set) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range in.sets {
		if i > 0 && s.Name == in.sets[i-1].Name {
			return fmt.Errorf("%s: %w: %q, also in %s", s.Origin, pinset.ErrDuplicateSet, s.Name, in.sets[i-1].Origin)
		}
		if s.Generated {
			in.warnings = append(in.warnings, s.Lint()...)
		}
	}
	return nil
}
