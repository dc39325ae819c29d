package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ReleaseSource is an OpenShift release.
type ReleaseSource struct {
	// Image is the release's pull spec, by digest or by tag.
	Image string `yaml:"image,omitempty"`
	// Components to take; all that CRI-O pulls if left out.
	Components Components `yaml:"components,omitempty"`
	// MachineOS takes the nodes' operating system as well, which CRI-O never pulls.
	MachineOS bool `yaml:"machineOS,omitempty"`
	// Signatures that must hold.
	Signatures Signatures `yaml:"signatures,omitempty"`
}

// Components are names, or patterns with * and ?.
type Components struct {
	Include []string `yaml:"include,omitempty"`
	Exclude []string `yaml:"exclude,omitempty"`
}

// Signatures of a release.
type Signatures struct {
	// Files are signatures, ConfigMaps of them, or folders with sha256=<hex>/signature-1.
	Files []string `yaml:"files,omitempty"`
	// Keys are OpenPGP keys that may have signed.
	Keys []string `yaml:"keys,omitempty"`
}

func (r ReleaseSource) validate() error {
	if s := r.Signatures; (len(s.Files) > 0) != (len(s.Keys) > 0) {
		return errors.New("has signatures without both files and keys")
	}
	_, err := pinset.ParseReference(r.Image)
	return err
}

// defaultPools are those that every OpenShift has.
var defaultPools = []string{"master", "worker"}

// release reads the payload, and makes a set of it for each pool: named by the
// set, the version and the pool.
func (in *inputs) release(ctx context.Context, client *storage.Client, s Source, set string, lock pinset.Lock) error {
	ref, err := pinset.ParseReference(s.Release.Image)
	if err != nil {
		return err
	}
	images, err := in.resolveTags(ctx, client, []pinset.Reference{ref}, lock, nil)
	if err != nil {
		return err
	}
	img := images[0]
	if err := s.Release.Signatures.verify(img); err != nil {
		return fmt.Errorf("release %s: %w", img, err)
	}
	files, err := client.Files(ctx, img, source.ImageReferences, source.ReleaseMetadata)
	if err != nil {
		return err
	}
	r, err := source.ParseRelease(files[source.ImageReferences], files[source.ReleaseMetadata])
	if err != nil {
		return fmt.Errorf("%s: %w", img, err)
	}
	chosen, err := r.Choose(s.Release.Components.Include, s.Release.Components.Exclude, s.Release.MachineOS)
	if err != nil {
		return fmt.Errorf("%s: %w", img, err)
	}
	in.note(img, "release/"+r.Version)
	all := []pinset.Image{img}
	for _, c := range chosen {
		in.note(c.Image, "release/"+r.Version+"/"+c.Name)
		all = append(all, c.Image)
	}
	pools := s.Pools
	if len(pools) == 0 {
		pools = defaultPools
	}
	in.add(asked{set: set + "-" + r.Version, pools: pools, origin: "release " + cmp.Or(ref.TagName(), img.String())}, all)
	return nil
}

// verify wants one of the signatures to hold, where there are any.
func (s Signatures) verify(img pinset.Image) error {
	if len(s.Files) == 0 {
		return nil
	}
	var keys [][]byte
	for _, name := range s.Keys {
		key, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	var errs []error
	for _, name := range s.Files {
		signatures, err := source.ReadSignatures(name, img.Digest)
		errs = append(errs, err)
		for _, signature := range signatures {
			err := storage.VerifySigned(signature, keys, img.Digest)
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
