package builder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// inputs are what the sources ask for.
type inputs struct {
	// material is what they name. pin makes sets of what is in none.
	material source.Content
	sets     []pinset.Set
	// tags by which images were asked for, and what asked for them.
	tags, from map[pinset.Image][]string
	// registries is what registries.conf is to say of mirrors; nil for nothing.
	registries []byte
	warnings   []string
}

// Close ends the reading of local files.
func (in *inputs) Close() error { return in.material.Close() }

// readInputs reads all sources and mirrors, and asks no registry. tmp is for archives that are
// compressed. The caller closes the inputs.
func readInputs(ctx context.Context, a spec.Appliance, tmp string) (in inputs, err error) {
	in.tags, in.from = map[pinset.Image][]string{}, map[pinset.Image][]string{}
	options := source.Options{Appliance: a.Metadata.Name, Platform: a.Spec.Platform, Tmp: tmp}
	in.material, err = source.Read(ctx, a.Spec.Sources, options)
	if err != nil {
		return in, err
	}
	in.sets, in.warnings = in.material.Sets, in.material.Warnings
	if err := in.readMirrors(a.Spec.Mirrors); err != nil {
		return in, errors.Join(err, in.Close())
	}
	return in, nil
}

// readMirrors reads the mirrors of all objects as one.
func (in *inputs) readMirrors(paths []string) error {
	rules, warnings, err := source.ReadMirrors(paths)
	if err != nil {
		return err
	}
	registries, err := mirror.Merge(rules)
	in.registries, in.warnings = mirror.Render(registries), append(in.warnings, warnings...)
	return err
}

// pin makes sets of the names that were asked for, and of releases.
func (in *inputs) pin(ctx context.Context, client *storage.Client, lock pinset.Lock, hooks progress.Hooks) error {
	locked := in.locked(lock)
	errs := []error{in.provide(ctx, client, locked)}
	var refs []pinset.Reference
	for _, a := range in.material.Named {
		for _, n := range a.Names {
			refs = append(refs, n.Reference)
		}
	}
	hooks.Count("resolve tags", len(refs))
	images, err := in.resolveTags(ctx, client, refs, locked, func() { hooks.Add(1) })
	if err != nil {
		return joinOnce(append(errs, err))
	}
	for _, a := range in.material.Named {
		in.add(a.Group, a.Origin, images[:len(a.Names)])
		images = images[len(a.Names):]
	}
	for _, r := range in.material.Releases {
		hooks.Begin("read release", 0)
		errs = append(errs, in.release(ctx, client, r, locked))
	}
	err = joinOnce(errs)
	if errors.Is(err, storage.ErrPlatform) { // tell all such images, wherever they are
		_, others := client.Resolve(ctx, pinset.Union(in.sets...), nil)
		err = joinOnce([]error{err, others})
	}
	if err != nil {
		return err
	}
	return in.check()
}

// warnLeftOut tells of unknown images that no input has asked for.
func (in *inputs) warnLeftOut() {
	asked := map[string]bool{}
	for _, img := range pinset.Union(in.sets...) {
		for _, name := range append([]string{img.String()}, in.tags[img]...) {
			asked[name] = true
		}
	}
	left := slices.DeleteFunc(in.material.Unknown, func(u source.Unknown) bool {
		ref := u.Reference
		if ref.Digest != "" {
			ref.Tag = "" // it does not count beside a digest
		}
		return asked[ref.String()]
	})
	if len(left) > 0 {
		in.warnings = append(in.warnings,
			"left out: "+source.DescribeUnknown(left)+"; give those that nodes pull with --image")
	}
}

// joinOnce joins errors, and tells what several of them say once.
func joinOnce(errs []error) error {
	var once []error
	seen := map[string]bool{}
	var add func(errs []error)
	add = func(errs []error) {
		for _, err := range errs {
			if err == nil {
				continue
			}
			// What was joined has no text of its own.
			if joined, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(joined.Unwrap()...).Error() {
				add(joined.Unwrap())
			} else if !seen[err.Error()] {
				seen[err.Error()] = true
				once = append(once, err)
			}
		}
	}
	add(errs)
	return errors.Join(once...)
}

// resolveTags also notes the tags. Those in the lock stay what they were.
func (in *inputs) resolveTags(
	ctx context.Context, client *storage.Client, refs []pinset.Reference, locked lockedTags, done func(),
) ([]pinset.Image, error) {
	known := slices.Clone(refs)
	for i, ref := range refs {
		if img, ok := locked.tags[ref.TagName()]; ok {
			known[i].Digest = img.Digest
		}
	}
	images, err := client.Pin(ctx, known, done)
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		if tag := ref.TagName(); tag != "" {
			in.tags[images[i]] = insert(in.tags[images[i]], tag)
		}
	}
	return images, nil
}

// note says what asked for an image.
func (in *inputs) note(img pinset.Image, from string) { in.from[img] = insert(in.from[img], from) }

// insert keeps a list sorted, and everything in it once.
func insert(list []string, s string) []string {
	if i, found := slices.BinarySearch(list, s); !found {
		return slices.Insert(list, i, s)
	}
	return list
}

// add makes sets of what was asked for: one for every node, or one for each pool.
func (in *inputs) add(group source.Group, origin string, images []pinset.Image) {
	named := func(name string, labels map[string]string) {
		i := slices.IndexFunc(in.sets, func(s pinset.Set) bool { return s.Name == name && s.Generated })
		if i < 0 {
			i = len(in.sets)
			in.sets = append(in.sets, pinset.Set{Name: name, Labels: labels, Generated: true, Origin: origin})
		}
		in.sets[i].Images = append(in.sets[i].Images, images...)
	}
	if len(group.Pools) == 0 {
		named(group.Set, nil)
	}
	for _, pool := range group.Pools {
		named(group.Set+"-"+pool, map[string]string{pinset.RoleLabel: pool})
	}
}

// check finds names that are used twice, and what the cluster's API would refuse.
func (in *inputs) check() error {
	var sets []pinset.Set
	for _, s := range in.sets {
		if s.Generated { // of what several sources may have added
			s.Images = pinset.Union(s)
		}
		sets = append(sets, s.Split()...)
	}
	in.sets = sets
	slices.SortStableFunc(in.sets, func(a, b pinset.Set) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range in.sets {
		if !pinset.ValidName(s.Name) { // as a set and a pool may be together
			return fmt.Errorf("%w: %s needs the set %q, whose name is no lower-case RFC 1123 subdomain of at most 253 bytes: "+
				"give it a shorter set, or pools of shorter names", spec.ErrAppliance, s.Origin, s.Name)
		}
		if i > 0 && s.Name == in.sets[i-1].Name {
			return fmt.Errorf("%s: %w: %q, also in %s", s.Origin, pinset.ErrDuplicateSet, s.Name, in.sets[i-1].Origin)
		}
		if s.Generated {
			in.warnings = append(in.warnings, s.Lint()...)
		}
	}
	return in.checkTags()
}

// ErrDuplicateName says that a name stands for two images.
var ErrDuplicateName = errors.New("name stands for two images")

// checkTags finds tags that inputs have read differently: in a store, a name is that
// of one image.
func (in *inputs) checkTags() error {
	var errs []error
	images := map[string]pinset.Image{}
	byName := func(a, b pinset.Image) int { return strings.Compare(a.String(), b.String()) }
	for _, img := range slices.SortedFunc(maps.Keys(in.tags), byName) {
		for _, tag := range in.tags[img] {
			if other, ok := images[tag]; ok {
				errs = append(errs, fmt.Errorf("%w: %s is %s in one input, and %s in another",
					ErrDuplicateName, tag, other.Digest, img.Digest))
			}
			images[tag] = img
		}
	}
	return errors.Join(errs...)
}
