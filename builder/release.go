package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// defaultPools are those that every OpenShift has.
var defaultPools = []string{"master", "worker"}

// release reads the payload, and makes a set of it for each pool: named by the
// set, the version and the pool.
func (in *inputs) release(ctx context.Context, client *storage.Client, s release, locked lockedTags) error {
	ref, err := pinset.ParseReference(s.Release.Image)
	if err != nil {
		return err
	}
	images, err := in.resolveTags(ctx, client, []pinset.Reference{ref}, locked, nil)
	if err != nil {
		return err
	}
	img := images[0]
	if s.tag != "" {
		if img.Digest, err = s.locked(img, locked); err != nil {
			return err
		}
		in.tags[img] = insert(in.tags[img], s.tag)
	}
	if err := verifySignatures(s.Release.Signatures, img, s.signatures); err != nil {
		return fmt.Errorf("release %s: %w", img, err)
	}
	s.provide(client, img)
	files, err := client.Files(ctx, img, source.ImageReferences, source.ReleaseMetadata)
	if err != nil {
		return errors.Join(err, s.incomplete(ctx, client))
	}
	r, err := source.ParsePayload(files[source.ImageReferences], files[source.ReleaseMetadata])
	if err != nil {
		return fmt.Errorf("%s: %w", img, err)
	}
	chosen, err := r.Choose(s.Release.Components.Include, s.Release.Components.Exclude, s.Release.MachineOS)
	if err != nil {
		return fmt.Errorf("%s: %w", img, err)
	}
	if s.blocks != nil {
		chosen = slices.DeleteFunc(chosen, func(c source.Component) bool { return s.blocks(c.Image.String()) })
	}
	in.note(img, "release/"+r.Version)
	all := []pinset.Image{img}
	for _, c := range chosen {
		s.provide(client, c.Image)
		in.note(c.Image, "release/"+r.Version+"/"+c.Name)
		all = append(all, c.Image)
	}
	if s.images != nil { // what is missing is found now
		if _, err := client.Resolve(ctx, all, nil); err != nil {
			return err
		}
	}
	pools := s.Pools
	if len(pools) == 0 {
		pools = defaultPools
	}
	in.add(asked{set: s.set + "-" + r.Version, pools: pools, origin: "release " + cmp.Or(ref.TagName(), img.String())}, all)
	return nil
}

// locked is the digest of a release that was asked for by a tag, where oc-mirror has told
// it.
func (r release) locked(img pinset.Image, locked lockedTags) (digest.Digest, error) {
	if r.images == nil { // a registry has it
		return cmp.Or(locked.tags[r.tag].Digest, img.Digest), nil
	}
	found, err := locked.image(r.tag, r.images.Image(img.String(), img.Digest))
	return found.Digest, err
}

// provide has the client read an image from this machine, if the release is there.
func (r release) provide(client *storage.Client, img pinset.Image) {
	if r.images != nil {
		client.Provide(img, sparse(r.images.Image(img.String(), img.Digest), r.dropped))
	}
}

// incomplete says what is missing of the components as well, where oc-mirror has
// kept their names.
func (r release) incomplete(ctx context.Context, client *storage.Client) error {
	parsed, err := source.ParsePayload(r.references, nil)
	if len(r.references) == 0 || err != nil {
		return nil // there is a better reason already
	}
	var all []pinset.Image
	for _, c := range parsed.Components {
		if r.blocks == nil || !r.blocks(c.Image.String()) {
			r.provide(client, c.Image)
			all = append(all, c.Image)
		}
	}
	_, err = client.Resolve(ctx, pinset.Union(pinset.Set{Images: all}), nil)
	return err
}

// verifySignatures wants one of the signatures to hold, where there are any: those in the
// files, or those that were found beside the release.
func verifySignatures(s spec.Signatures, img pinset.Image, beside [][]byte) error {
	if len(s.Keys) == 0 {
		return nil
	}
	var keys [][]byte
	for _, name := range s.Keys {
		key, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := storage.CheckKey(key); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		keys = append(keys, key)
	}
	var errs []error
	holds := func(signatures [][]byte) bool {
		return slices.ContainsFunc(signatures, func(signature []byte) bool {
			err := storage.VerifySigned(signature, keys, img.Digest)
			errs = append(errs, err)
			return err == nil
		})
	}
	if holds(beside) {
		return nil
	}
	for _, name := range s.Files {
		signatures, err := source.ReadSignatures(name, img.Digest)
		errs = append(errs, err)
		if holds(signatures) {
			return nil
		}
	}
	if len(errs) == 0 {
		return source.ErrNoSignature
	}
	return errors.Join(errs...)
}
