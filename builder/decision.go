package builder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// decision is what a build will make.
type decision struct {
	inputs
	client *storage.Client
	config firstboot.Files
	images []storage.Resolved
}

// Close ends the reading of images.
func (d *decision) Close() error {
	err := d.inputs.Close()
	if d.client != nil {
		err = errors.Join(err, d.client.Close())
	}
	return err
}

// tmp is where compressed archives are unpacked: where the appliance grows, since
// there is room for it.
func (o Options) tmp() string {
	if o.Out == "" {
		return ""
	}
	return filepath.Dir(filepath.Clean(o.Out))
}

// decide reads the inputs, and asks the registries what they are. Whatever is
// wrong with the ISO is found before the first request. The caller closes the
// decision.
func decide(ctx context.Context, o Options) (d decision, err error) {
	if d.inputs, err = readInputs(ctx, o.Appliance, o.tmp()); err != nil {
		return d, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.config, err = firstboot.Configure(o.Appliance, d.sets, d.registries); err != nil {
		return d, err
	}
	o.Access.Registries, o.Access.Retrying = d.registries, o.Hooks.Retrying
	if d.client, err = storage.NewClient(o.Access, o.Appliance.Spec.Platform); err != nil {
		return d, err
	}
	d.warnings = append(d.warnings, d.client.Warnings()...)
	defer func() {
		switch { // these may be why
		case errors.Is(err, storage.ErrUnauthorized):
			err = fmt.Errorf("%w\n%s", err, strings.Join(d.client.Warnings(), "\n"))
		case errors.Is(err, storage.ErrRegistry), errors.Is(err, storage.ErrNotFound):
			err = fmt.Errorf("%w\n%s", err, strings.Join(d.material.RegistryReasons, "\n"))
		}
	}()
	if d.material.Unpinned() {
		if err := d.pin(ctx, d.client, o.Lock, o.Hooks); err != nil {
			return d, err
		}
		if d.config, err = firstboot.Configure(o.Appliance, d.sets, d.registries); err != nil {
			return d, err
		}
	}
	d.warnLeftOut()
	if d.images, err = resolve(ctx, o, d.client, d.inputs); err != nil || !o.Locked {
		return d, err
	}
	if drift := pinset.Drift(o.Lock, makeLock(o.Appliance.Spec.Platform, d.sets, d.images)); drift != "" {
		return d, fmt.Errorf("%w:\n%s", ErrDrift, drift)
	}
	return d, nil
}

// resolve asks the registries what the images of all sets are.
func resolve(ctx context.Context, o Options, client *storage.Client, in inputs) ([]storage.Resolved, error) {
	images := pinset.Union(in.sets...)
	o.Hooks.Count("resolve images", len(images))
	resolved, err := client.Resolve(ctx, images, func(pinset.Image) { o.Hooks.Add(1) })
	if err != nil {
		return nil, err
	}
	for _, s := range in.sets {
		for _, img := range s.Images {
			in.note(img, pinset.Kind+"/"+s.Name)
		}
	}
	for i := range resolved {
		resolved[i].From, resolved[i].Tags = in.from[resolved[i].Image], in.tags[resolved[i].Image]
	}
	return resolved, nil
}

func makeLock(platform pinset.Platform, sets []pinset.Set, images []storage.Resolved) pinset.Lock {
	lock := pinset.Lock{Version: pinset.LockVersion, Platform: platform}
	for _, s := range sets {
		lock.Sets = append(lock.Sets, s.Lock())
	}
	for _, img := range images {
		lock.Images = append(lock.Images, img.LockedImage)
	}
	return lock
}
