package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// SumInISO returns the SHA-256 and the size in bytes of a part of an ISO: a file in iso.Dir, the Ignition
// config (IgnitionFile) or the base (ISOBase).
func SumInISO(
	ctx context.Context, image *iso.Image, name string, hooks progress.Hooks,
) (sum string, size int64, err error) {
	switch name {
	case IgnitionFile:
		config, err := image.Ignition()
		if err != nil {
			return "", 0, err
		}
		return SumReader(ctx, bytes.NewReader(config), hooks)
	case ISOBase:
		base, _, err := image.Base()
		if err != nil {
			return "", 0, err
		}
		return SumReader(ctx, base, hooks)
	}
	f, err := image.Find(path.Join(iso.Dir, name))
	if err != nil {
		return "", 0, err
	}
	return SumReader(ctx, f.Reader(), hooks)
}

// Inspect describes an ISO, with the digests of the files that pinbox added.
func Inspect(name string) (iso.Info, error) {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return iso.Info{}, err
	}
	defer f.Close()
	info, err := image.Info()
	if err != nil {
		return iso.Info{}, fmt.Errorf("%s: %w", name, err)
	}
	text, err := image.ReadText(path.Join(iso.Dir, ISOSums))
	if errors.Is(err, iso9660.ErrNotFound) {
		return info, nil
	}
	if err != nil {
		return iso.Info{}, fmt.Errorf("%s: %w", name, err)
	}
	sums, err := ParseSums(text, name, ISOSums)
	info.BaseSHA256 = sums[ISOBase]
	if root, err := image.ReadText(path.Join(iso.Dir, ISORootHash)); err == nil {
		info.StoreRootHash = strings.TrimSpace(string(root))
	}
	for i, m := range info.Added {
		info.Added[i].SHA256 = sums[m.Name]
	}
	if lock, err := lockIn(image, name); err == nil {
		info.Appliance, info.Release = lock.Name, lock.Number
	}
	if info.Ignition == nil {
		return info, err
	}
	for i, m := range info.Ignition.Members {
		info.Ignition.Members[i].SHA256 = sums[m.Name]
	}
	if config, err := image.Ignition(); err == nil {
		info.Installs = ignition.InstallDisk(config)
	}
	return info, err
}

// IsNoISO reports whether Inspect has failed because the name is that of another file, or of a folder.
func IsNoISO(err error) bool {
	return errors.Is(err, iso9660.ErrNotISO) || errors.Is(err, syscall.EISDIR)
}

// Reset writes the base of an edited ISO. It returns ErrVerify if the base has changed.
func Reset(ctx context.Context, edited, out string, hooks progress.Hooks) error {
	info, err := Inspect(edited)
	if err != nil {
		return err
	}
	if info.BaseSHA256 != "" {
		image, f, err := iso.OpenFile(edited)
		if err != nil {
			return err
		}
		defer f.Close()
		hooks.Begin("hash "+filepath.Base(edited), info.Size)
		sum, _, err := SumInISO(ctx, image, ISOBase, hooks)
		if err != nil {
			return fmt.Errorf("%s: %w", edited, err)
		}
		if sum != info.BaseSHA256 {
			return fmt.Errorf("%s: %w: the base has SHA-256 %s, want %s", edited, ErrVerify, sum, info.BaseSHA256)
		}
	}
	return iso.Reset(ctx, edited, out)
}

// ExtractStore writes the store of an ISO.
func ExtractStore(ctx context.Context, name string, w io.Writer) error {
	return extract(ctx, name, ISOStore, w)
}

// ExtractLock writes the lock of an ISO.
func ExtractLock(ctx context.Context, name string, w io.Writer) error {
	return extract(ctx, name, ISOLock, w)
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
		err = fmt.Errorf("%s: Ignition config: %w", name, iso9660.ErrNotFound)
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
	_, err = io.Copy(w, reader{ctx, inside.Reader(), nil})
	return err
}
