package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// looked are the flags of the commands that look into images.
type looked struct {
	bases []string
	key   string
}

func (l *looked) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&l.bases, "base", nil,
		"`PATH` of a folder or ISO that a delta was built over; may be repeated, once for each store of the chain")
	cli.Files(flags, "base", "iso")
	flags.StringVar(&l.key, "key", "",
		"`FILE` of public keys in PEM, one of which must have signed the sums; the stores are compared with these first")
	cli.Files(flags, "key", "pub", "pem")
	cli.Under("Inputs", flags)
}

// open calls use with the images of a release.
func (l *looked) open(
	ctx context.Context, name string, hooks progress.Hooks, use func(*look.Images) error,
) (err error) {
	var keys signature.Keys
	if l.key != "" {
		if keys, err = signature.ReadKeys(l.key); err != nil {
			return err
		}
	}
	var releases []*release.Release
	for _, name := range append([]string{name}, l.bases...) {
		r, err := release.Open(name, keys)
		if err != nil {
			return err
		}
		defer r.Close()
		if l.key != "" {
			if err := look.Check(ctx, r, hooks); err != nil {
				return err
			}
		}
		releases = append(releases, r)
	}
	images, err := look.Open(ctx, releases, hooks)
	if err != nil {
		return err
	}
	return errors.Join(use(images), images.Close())
}

// view calls use with the files of an image.
func (l *looked) view(ctx context.Context, name, image string, hooks progress.Hooks, use func(look.View) error) error {
	return l.image(ctx, name, image, hooks, func(images *look.Images, img pinset.LockedImage) error {
		v, err := images.View(img)
		if err != nil {
			return err
		}
		return use(v)
	})
}

// image calls use with an image of a release.
func (l *looked) image(
	ctx context.Context, name, image string, hooks progress.Hooks, use func(*look.Images, pinset.LockedImage) error,
) error {
	return l.open(ctx, name, hooks, func(images *look.Images) error {
		img, err := look.Find(images.Images, image)
		if err != nil {
			return err
		}
		return use(images, img)
	})
}
