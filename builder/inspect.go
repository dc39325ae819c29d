package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/pinset"
)

// verifyISO hashes store, lock and config out of an ISO.
func verifyISO(ctx context.Context, name string, hooks Hooks) (Verified, error) {
	image, f, err := iso.OpenFile(name)
	if errors.Is(err, iso.ErrNotISO) {
		return Verified{}, fmt.Errorf("%w: %w", ErrNotAppliance, err)
	}
	if err != nil {
		return Verified{}, err
	}
	defer f.Close()
	text, err := image.Text(path.Join(iso.Dir, isoSums))
	if errors.Is(err, iso.ErrNotFound) {
		return Verified{}, fmt.Errorf("%s: %w: %w", name, ErrNotAppliance, err)
	}
	if err != nil {
		return Verified{}, err
	}
	sums, err := parseSums(text, name, isoSums)
	if err != nil {
		return Verified{}, err
	}
	v := Verified{Dir: name, Files: len(sums)}
	var errs []error
	// A second medium has no config, and a live ISO that is used with one no store.
	if sums[isoLock] == "" || sums[isoStore]+sums[IgnitionFile] == "" {
		errs = append(errs, fmt.Errorf("%s has no entry for %s or %s", isoSums, isoLock, isoStore))
	}
	if fi, err := f.Stat(); err == nil {
		hooks.step("hash "+filepath.Base(name), fi.Size())
	}
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		got, size, err := sumInside(ctx, image, file, hooks)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if file == isoStore {
			v.StoreSize, v.StoreDigest = size, "sha256:"+got
		}
		if got != sums[file] {
			errs = append(errs, fmt.Errorf("%s has changed: SHA-256 %s, was %s", file, got, sums[file]))
		}
	}
	if f, err := image.Find(path.Join(iso.Dir, isoLock)); err == nil {
		if lock, err := pinset.DecodeLock(f.Reader()); err == nil {
			v.Totals = lock.Totals()
			if errors.Join(errs...) == nil {
				errs = append(errs, v.medium(name, lock))
			}
		}
	}
	if ctx.Err() != nil {
		return Verified{}, ctx.Err()
	}
	if err := errors.Join(errs...); err != nil {
		return Verified{}, fmt.Errorf("%s: %w:\n%w", name, ErrVerify, err)
	}
	return v, nil
}

// medium looks whether an ISO has a delta.
func (v *Verified) medium(name string, lock pinset.Lock) error {
	store, err := packedStore(name)
	if err != nil {
		return err
	}
	d, err := openDelta(store, lock)
	if d != nil {
		v.Delta = d.verified()
	}
	return err
}

func sumInside(ctx context.Context, image *iso.Image, name string, hooks Hooks) (sum string, size int64, err error) {
	switch name {
	case IgnitionFile:
		config, err := image.Ignition()
		if err != nil {
			return "", 0, err
		}
		return sumAll(ctx, bytes.NewReader(config), hooks)
	case isoBase:
		base, _, err := image.Base()
		if err != nil {
			return "", 0, err
		}
		return sumAll(ctx, base, hooks)
	}
	f, err := image.Find(path.Join(iso.Dir, name))
	if err != nil {
		return "", 0, err
	}
	return sumAll(ctx, f.Reader(), hooks)
}

// Show tells what an ISO says of itself, with the digests of what pinbox added.
func Show(name string) (iso.Info, error) {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return iso.Info{}, err
	}
	defer f.Close()
	info, err := image.Info()
	if err != nil {
		return iso.Info{}, fmt.Errorf("%s: %w", name, err)
	}
	text, err := image.Text(path.Join(iso.Dir, isoSums))
	if errors.Is(err, iso.ErrNotFound) {
		return info, nil
	}
	if err != nil {
		return iso.Info{}, fmt.Errorf("%s: %w", name, err)
	}
	sums, err := parseSums(text, name, isoSums)
	info.BaseSHA256 = sums[isoBase]
	for i, m := range info.Added {
		info.Added[i].SHA256 = sums[m.Name]
	}
	if info.Ignition == nil {
		return info, err
	}
	for i, m := range info.Ignition.Members {
		info.Ignition.Members[i].SHA256 = sums[m.Name]
	}
	if config, err := image.Ignition(); err == nil {
		info.Installs = ignition.Installs(config)
	}
	return info, err
}

// Reset writes the base of an edited ISO, if it is still what it was.
func Reset(ctx context.Context, edited, out string, hooks Hooks) error {
	info, err := Show(edited)
	if err != nil {
		return err
	}
	if info.BaseSHA256 != "" {
		image, f, err := iso.OpenFile(edited)
		if err != nil {
			return err
		}
		defer f.Close()
		hooks.step("hash "+filepath.Base(edited), info.Size)
		sum, _, err := sumInside(ctx, image, isoBase, hooks)
		if err != nil {
			return fmt.Errorf("%s: %w", edited, err)
		}
		if sum != info.BaseSHA256 {
			return fmt.Errorf("%s: %w: its base has SHA-256 %s, was %s", edited, ErrVerify, sum, info.BaseSHA256)
		}
	}
	return iso.Reset(ctx, edited, out)
}

// ExtractStore writes the store of an ISO.
func ExtractStore(ctx context.Context, name string, w io.Writer) error {
	return extract(ctx, name, isoStore, w)
}

// ExtractLock writes the lock of an ISO.
func ExtractLock(ctx context.Context, name string, w io.Writer) error {
	return extract(ctx, name, isoLock, w)
}

// ExtractIgnition writes the Ignition config of an ISO.
func ExtractIgnition(_ context.Context, name string, w io.Writer) error {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	config, err := image.Ignition()
	if err == nil && config == nil {
		err = fmt.Errorf("%s: Ignition config: %w", name, iso.ErrNotFound)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(config)
	return err
}

func extract(ctx context.Context, name, file string, w io.Writer) error {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	inside, err := image.Find(path.Join(iso.Dir, file))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = io.Copy(w, progressReader{ctx, inside.Reader(), nil})
	return err
}
