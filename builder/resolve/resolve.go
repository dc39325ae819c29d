package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNoneTaken says that a name of an image that may have any architecture is none of the inputs.
var ErrNoneTaken = fault.New(fault.Input, "no input names it",
	"correct the name in --any-architecture or spec.anyArchitecture, or leave it out")

// Result is what the material was resolved to.
type Result struct {
	// Sets are the sets of the material and the generated sets, sorted by name.
	Sets []pinset.Set
	// Images are the images of all sets, each one once, and Artifacts the OCI artifacts.
	Images    []storage.Resolved
	Artifacts []storage.Resolved
	// Releases are those of OpenShift.
	Releases []openshift.Release
	Warnings []string
}

// Resolve resolves the material with the registries that the client may ask. A tag in the lock keeps its
// digest.
func Resolve(
	ctx context.Context, client *storage.Client, material source.Content, lock pinset.Lock, hooks progress.Hooks,
) (Result, error) {
	r := resolver{
		client: client, material: material, locked: newLockedTags(lock, material.Local), hooks: hooks,
		sets: material.Sets, tags: map[pinset.Image][]string{}, origins: map[pinset.Image][]string{},
		volumes: map[pinset.Image]bool{}, taken: map[pinset.Reference]bool{},
	}
	if material.Unpinned() {
		if err := r.pin(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := r.possible(); err != nil {
		return Result{}, err
	}
	r.takeAnyArchitecture(pinset.Union(r.sets...))
	if err := r.noneTaken(); err != nil {
		return Result{}, err
	}
	all, err := r.images(ctx)
	result := Result{Sets: r.sets, Releases: r.releases, Warnings: r.warnings}
	for _, img := range all {
		for i := range result.Releases {
			result.Releases[i].Sign(img.Image, img.Signatures)
		}
		if img.Artifact != nil {
			result.Artifacts = append(result.Artifacts, img)
		} else {
			result.Images = append(result.Images, img)
		}
	}
	return result, err
}

// resolver collects sets while the material is resolved.
type resolver struct {
	client   *storage.Client
	material source.Content
	locked   lockedTags
	hooks    progress.Hooks
	sets     []pinset.Set
	// tags are the tags by which images were named, origins the sets and releases that name them.
	tags, origins map[pinset.Image][]string
	// volumes are the images that pods use as image volumes.
	volumes map[pinset.Image]bool
	// taken are the names of images that may have any architecture which name an image.
	taken    map[pinset.Reference]bool
	releases []openshift.Release
	warnings []string
}

// pin makes sets of named images, local images and releases. It reports the errors of all of them.
func (r *resolver) pin(ctx context.Context) error {
	errs := []error{r.local(ctx), r.named(ctx)}
	if errs[1] == nil {
		for _, wanted := range r.material.Releases {
			r.hooks.Begin("read release", 0)
			errs = append(errs, r.release(ctx, wanted))
		}
	}
	err := joinOnce(errs)
	if errs[1] == nil && errors.Is(err, storage.ErrPlatform) { // report the images of all sets that have this error
		r.takeAnyArchitecture(pinset.Union(r.sets...))
		_, others := r.client.Resolve(ctx, pinset.Union(r.sets...), nil)
		err = joinOnce([]error{err, others})
	}
	if err != nil {
		return err
	}
	return r.checkSets()
}

// named makes sets of images that are named by tag or digest.
func (r *resolver) named(ctx context.Context) error {
	var refs []pinset.Reference
	for _, n := range r.material.Named {
		for _, name := range n.Names {
			refs = append(refs, name.Reference)
		}
	}
	r.hooks.Count("resolve tags", len(refs))
	images, err := r.resolveTags(ctx, refs, func() { r.hooks.Add(1) })
	if err != nil {
		return err
	}
	for _, n := range r.material.Named {
		for i, name := range n.Names {
			r.volumes[images[i]] = r.volumes[images[i]] || name.Volume
		}
		r.add(n.Group, n.Origin, images[:len(n.Names)])
		images = images[len(n.Names):]
	}
	return nil
}

// resolveTags returns the images that the references name, in their order. It asks no registry for tags
// that are in the lock. done is called after each reference; it may be nil.
func (r *resolver) resolveTags(ctx context.Context, refs []pinset.Reference, done func()) ([]pinset.Image, error) {
	known := slices.Clone(refs)
	for i, ref := range refs {
		if img, ok := r.locked.tags[ref.TagName()]; ok {
			known[i].Digest = img.Digest
		}
	}
	images, err := r.client.ResolveReferences(ctx, known, done)
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		if tag := ref.TagName(); tag != "" {
			r.addTag(images[i], tag)
		}
	}
	return images, nil
}

// images resolves the images of all sets.
func (r *resolver) images(ctx context.Context) ([]storage.Resolved, error) {
	images := pinset.Union(r.sets...)
	r.hooks.Count("resolve images", len(images))
	resolved, err := r.client.Resolve(ctx, images, func(pinset.Image) { r.hooks.Add(1) })
	if err != nil {
		return nil, err
	}
	for _, s := range r.sets {
		for _, img := range s.Images {
			r.addOrigin(img, pinset.Kind+"/"+s.Name)
		}
	}
	for i := range resolved {
		img := resolved[i].Image
		if resolved[i].Warning != "" {
			r.warnings = append(r.warnings, fmt.Sprintf("image %s: %s", img, resolved[i].Warning))
		}
		if a := resolved[i].Artifact; a != nil {
			a.From, a.Tags = r.origins[img], r.tags[img]
			continue
		}
		resolved[i].From, resolved[i].Tags, resolved[i].Volume = r.origins[img], r.tags[img], r.volumes[img]
	}
	return resolved, nil
}

// takeAnyArchitecture tells the client which of the images the user takes whatever their architecture is.
func (r *resolver) takeAnyArchitecture(images []pinset.Image) {
	for _, name := range r.material.AnyArchitecture {
		for _, img := range images {
			named := name.Repository == img.Repository
			switch {
			case name.Digest != "":
				named = named && name.Digest == img.Digest
			case name.Tag != "":
				named = slices.Contains(r.tags[img], name.TagName())
			}
			if named {
				r.client.TakeAnyArchitecture(img)
				r.taken[name] = true
			}
		}
	}
}

func (r *resolver) noneTaken() error {
	var errs []error
	for _, name := range r.material.AnyArchitecture {
		if !r.taken[name] {
			errs = append(errs, fmt.Errorf("--any-architecture %s: %w", name, ErrNoneTaken))
		}
	}
	return errors.Join(errs...)
}

// possible lists names that may be images, and that no source names, in a warning. Refused ones are an error.
func (r *resolver) possible() error {
	named := map[string]bool{}
	for _, img := range pinset.Union(r.sets...) {
		named[img.String()] = true
		for _, tag := range r.tags[img] {
			named[tag] = true
		}
	}
	left := slices.DeleteFunc(r.material.Possible, func(p source.Possible) bool {
		ref := p.Reference
		if ref.Digest != "" {
			ref.Tag = "" // the digest decides
		}
		return named[ref.String()]
	})
	if slices.ContainsFunc(left, func(p source.Possible) bool { return p.Refused }) {
		return fmt.Errorf("%w: %s", source.ErrPossible, source.DescribePossible(left))
	}
	if len(left) > 0 {
		r.warnings = append(r.warnings, "named but not taken: "+source.DescribePossible(left)+
			"\nadd those that nodes pull with --image, or all of them with --possible-images take")
	}
	return nil
}

// ErrDuplicateName says that a name stands for two images.
var ErrDuplicateName = fault.New(fault.Input, "name stands for two images",
	"name it by digest in one of them, or give one of them another name")

// addTag records a tag by which an image was named.
func (r *resolver) addTag(img pinset.Image, tag string) { r.tags[img] = insert(r.tags[img], tag) }

// addOrigin records a set or a release that names an image.
func (r *resolver) addOrigin(img pinset.Image, origin string) {
	r.origins[img] = insert(r.origins[img], origin)
}

// insert inserts s into a sorted list, unless it is there already.
func insert(list []string, s string) []string {
	if i, found := slices.BinarySearch(list, s); !found {
		return slices.Insert(list, i, s)
	}
	return list
}

// add adds images to the set of a group, or to its sets, one for each pool.
func (r *resolver) add(group source.Group, origin string, images []pinset.Image) {
	if len(group.Pools) == 0 {
		r.addTo(group.Set, nil, origin, images)
	}
	for _, pool := range group.Pools {
		r.addTo(group.Set+"-"+pool, map[string]string{pinset.RoleLabel: pool}, origin, images)
	}
}

// addTo adds images to the generated set with the name.
func (r *resolver) addTo(name string, labels map[string]string, origin string, images []pinset.Image) {
	i := slices.IndexFunc(r.sets, func(s pinset.Set) bool { return s.Name == name && s.Generated })
	if i < 0 {
		i = len(r.sets)
		r.sets = append(r.sets, pinset.Set{Name: name, Labels: labels, Generated: true, Origin: origin})
	}
	r.sets[i].Images = append(r.sets[i].Images, images...)
}

// checkSets splits sets that are too large, sorts all sets, and reports names that the cluster's API
// would refuse.
func (r *resolver) checkSets() error {
	var sets []pinset.Set
	for _, s := range r.sets {
		if s.Generated { // several sources may have added the same image
			s.Images = pinset.Union(s)
		}
		sets = append(sets, s.Split()...)
	}
	r.sets = sets
	slices.SortStableFunc(r.sets, func(a, b pinset.Set) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range r.sets {
		if !pinset.ValidName(s.Name) { // the name of a set and a pool together may be too long
			return fmt.Errorf("%w: %s needs the set %q, whose name is not a lower-case RFC 1123 subdomain of at most "+
				"253 bytes: give it a shorter set, or pools of shorter names", spec.ErrAppliance, s.Origin, s.Name)
		}
		if i > 0 && s.Name == r.sets[i-1].Name {
			return fmt.Errorf("%s: %w: %q, also in %s", s.Origin, pinset.ErrDuplicateSet, s.Name, r.sets[i-1].Origin)
		}
		if s.Generated {
			r.warnings = append(r.warnings, s.Warnings()...)
		}
	}
	return r.checkTags()
}

// checkTags reports tags that stand for different images in two inputs: a name in a store is unique.
func (r *resolver) checkTags() error {
	var errs []error
	images := map[string]pinset.Image{}
	byName := func(a, b pinset.Image) int { return strings.Compare(a.String(), b.String()) }
	for _, img := range slices.SortedFunc(maps.Keys(r.tags), byName) {
		for _, tag := range r.tags[img] {
			if other, ok := images[tag]; ok {
				errs = append(errs, fmt.Errorf("%w: %s is %s in one input, and %s in another",
					ErrDuplicateName, tag, other.Digest, img.Digest))
			}
			images[tag] = img
		}
	}
	return errors.Join(errs...)
}

// joinOnce joins errors without those whose text is a repetition.
func joinOnce(errs []error) error {
	var once []error
	seen := map[string]bool{}
	var add func(errs []error)
	add = func(errs []error) {
		for _, err := range errs {
			if err == nil {
				continue
			}
			// A joined error has the texts of its parts.
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
