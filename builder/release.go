package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// defaultPools are those that every OpenShift has.
var defaultPools = []string{"master", "worker"}

// release reads the payload, and makes a set of it for each pool: named by the
// set, the version and the pool.
func (in *inputs) release(
	ctx context.Context, client *storage.Client, s source.RequestedRelease, locked lockedTags,
) error {
	ref, err := pinset.ParseReference(s.Image)
	if err != nil {
		return err
	}
	images, err := in.resolveTags(ctx, client, []pinset.Reference{ref}, locked, nil)
	if err != nil {
		return err
	}
	img := images[0]
	if s.Tag != "" {
		if img.Digest, err = lockedRelease(s, img, locked); err != nil {
			return err
		}
		in.tags[img] = insert(in.tags[img], s.Tag)
	}
	if err := s.Signatures.Verify(img.Digest, s.MirroredSignatures); err != nil {
		return fmt.Errorf("release %s: %w", img, err)
	}
	provideRelease(client, s, img)
	files, err := client.Files(ctx, img, source.ImageReferences, source.ReleaseMetadata)
	if err != nil {
		return errors.Join(err, incomplete(ctx, client, s))
	}
	r, err := source.ParsePayload(files[source.ImageReferences], files[source.ReleaseMetadata])
	if err != nil {
		return fmt.Errorf("%s: %w", img, err)
	}
	chosen, err := r.Select(s.Components.Include, s.Components.Exclude, s.MachineOS)
	if err != nil {
		return fmt.Errorf("%s: %w", img, err)
	}
	if s.Blocked != nil {
		chosen = slices.DeleteFunc(chosen, func(c source.Component) bool { return s.Blocked(c.Image.String()) })
	}
	in.note(img, "release/"+r.Version)
	all := []pinset.Image{img}
	for _, c := range chosen {
		provideRelease(client, s, c.Image)
		in.note(c.Image, "release/"+r.Version+"/"+c.Name)
		all = append(all, c.Image)
	}
	if s.Images != nil { // what is missing is found now
		if _, err := client.Resolve(ctx, all, nil); err != nil {
			return err
		}
	}
	pools := s.Pools
	if len(pools) == 0 {
		pools = defaultPools
	}
	in.add(source.Group{Set: s.Set + "-" + r.Version, Pools: pools}, "release "+cmp.Or(ref.TagName(), img.String()), all)
	return nil
}

// lockedRelease is the digest of a release that was asked for by a tag, where oc-mirror has
// told it.
func lockedRelease(r source.RequestedRelease, img pinset.Image, locked lockedTags) (digest.Digest, error) {
	if r.Images == nil { // a registry has it
		return cmp.Or(locked.tags[r.Tag].Digest, img.Digest), nil
	}
	found, err := locked.image(r.Tag, r.Images.Image(img.String(), img.Digest))
	return found.Digest, err
}

// provideRelease has the client read an image from this machine, if the release is there.
func provideRelease(client *storage.Client, r source.RequestedRelease, img pinset.Image) {
	if r.Images != nil {
		client.Provide(img, r.Local(img))
	}
}

// incomplete says what is missing of the components as well, where oc-mirror has
// kept their names.
func incomplete(ctx context.Context, client *storage.Client, r source.RequestedRelease) error {
	parsed, err := source.ParsePayload(r.References, nil)
	if len(r.References) == 0 || err != nil {
		return nil // there is a better reason already
	}
	var all []pinset.Image
	for _, c := range parsed.Components {
		if r.Blocked == nil || !r.Blocked(c.Image.String()) {
			provideRelease(client, r, c.Image)
			all = append(all, c.Image)
		}
	}
	_, err = client.Resolve(ctx, pinset.Union(pinset.Set{Images: all}), nil)
	return err
}
