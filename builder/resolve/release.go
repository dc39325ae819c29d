package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

// defaultPools are the MachineConfigPools that every OpenShift cluster has.
var defaultPools = []string{"master", "worker"}

// release reads the payload of an OpenShift release, and makes a set of it for each pool: SET-VERSION-POOL.
func (r *resolver) release(ctx context.Context, wanted source.RequestedRelease) error {
	ref, err := pinset.ParseReference(wanted.Image)
	if err != nil {
		return err
	}
	images, err := r.resolveTags(ctx, []pinset.Reference{ref}, nil)
	if err != nil {
		return err
	}
	img := images[0]
	if wanted.Tag != "" {
		if img.Digest, err = r.lockedRelease(wanted, img); err != nil {
			return err
		}
		r.addTag(img, wanted.Tag)
	}
	if err := wanted.Signatures.Verify(img.Digest, wanted.MirroredSignatures); err != nil {
		return fmt.Errorf("release %s: %w", img, err)
	}
	r.provide(wanted, img)
	r.takeAnyArchitecture([]pinset.Image{img})
	payload, components, err := r.payload(ctx, wanted, img)
	if err != nil {
		return err
	}
	r.addOrigin(img, "release/"+payload.Version)
	all := []pinset.Image{img}
	for _, c := range components {
		r.provide(wanted, c.Image)
		r.addOrigin(c.Image, "release/"+payload.Version+"/"+c.Name)
		all = append(all, c.Image)
	}
	r.takeAnyArchitecture(all)
	if wanted.Images != nil { // report now what is missing on this machine
		if _, err := r.client.Resolve(ctx, all, nil); err != nil {
			return err
		}
	}
	n := slices.IndexFunc(r.releases, func(other openshift.Release) bool { return other.Image == img })
	if n < 0 { // else another source names it, too
		n = len(r.releases)
		r.releases = append(r.releases, openshift.Release{Image: img, Version: payload.Version})
	}
	r.releases[n].Sign(img, wanted.MirroredSignatures)
	for _, name := range wanted.Signatures.Files {
		signatures, err := source.ReadSignatures(name, img.Digest)
		if err != nil && !errors.Is(err, source.ErrNoSignature) { // another file may have it
			return fmt.Errorf("release %s: %w", img, err)
		}
		r.releases[n].Sign(img, signatures)
	}
	group := source.Group{Set: wanted.Set + "-" + payload.Version, Pools: wanted.Pools}
	if len(group.Pools) == 0 {
		group.Pools = defaultPools
	}
	r.add(group, "release "+cmp.Or(ref.TagName(), img.String()), all)
	return nil
}

// payload reads the payload from the release image, and chooses the wanted components.
func (r *resolver) payload(
	ctx context.Context, wanted source.RequestedRelease, img pinset.Image,
) (p source.Payload, chosen []source.Component, err error) {
	files, err := r.client.ReadFiles(ctx, img, source.ImageReferences, source.ReleaseMetadata)
	if err != nil {
		return p, nil, errors.Join(err, r.missingComponents(ctx, wanted))
	}
	if p, err = source.ParsePayload(files[source.ImageReferences], files[source.ReleaseMetadata]); err != nil {
		return p, nil, fmt.Errorf("%s: %w", img, err)
	}
	if chosen, err = choose(p, wanted); err != nil {
		return p, nil, fmt.Errorf("%s: %w", img, err)
	}
	return p, chosen, nil
}

// choose returns the components of a payload that are wanted.
func choose(p source.Payload, wanted source.RequestedRelease) ([]source.Component, error) {
	chosen, err := p.Select(wanted.Components.Include, wanted.Components.Exclude,
		wanted.MachineOS != nil && *wanted.MachineOS)
	if err != nil || wanted.Blocked == nil {
		return chosen, err
	}
	return slices.DeleteFunc(chosen, func(c source.Component) bool { return wanted.Blocked(c.Image.String()) }), nil
}

// lockedRelease returns the digest of a release that oc-mirror fetched by a tag.
func (r *resolver) lockedRelease(wanted source.RequestedRelease, img pinset.Image) (digest.Digest, error) {
	if wanted.Images == nil { // the release is in a registry
		return cmp.Or(r.locked.tags[wanted.Tag].Digest, img.Digest), nil
	}
	found, err := r.locked.image(wanted.Tag, wanted.Images.Image(img.String(), img.Digest))
	return found.Digest, err
}

// provide tells the client to read an image from this machine, if the release is on it.
func (r *resolver) provide(wanted source.RequestedRelease, img pinset.Image) {
	if wanted.Images != nil {
		r.client.AddLocal(img, wanted.Local(img))
	}
}

// missingComponents reports the wanted components that are missing too, if oc-mirror has kept the list
// of all.
func (r *resolver) missingComponents(ctx context.Context, wanted source.RequestedRelease) error {
	parsed, err := source.ParsePayload(wanted.References, nil)
	if len(wanted.References) == 0 || err != nil {
		return nil // the caller has a better error already
	}
	chosen, err := choose(parsed, wanted)
	if err != nil {
		return nil // as above
	}
	var all []pinset.Image
	for _, c := range chosen {
		r.provide(wanted, c.Image)
		all = append(all, c.Image)
	}
	_, err = r.client.Resolve(ctx, pinset.Union(pinset.Set{Images: all}), nil)
	return err
}
