package builder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Names of what an ISO holds, in the folder iso.Dir: each has one dot at most,
// which is all that ISO 9660 itself permits.
const (
	isoStore = "store.squashfs"
	isoLock  = "lock.json"
	isoSums  = "sums.txt"
)

func (s ISOSpec) edit(config configFiles, additions ...iso.Addition) iso.Edit {
	k := s.KernelArguments
	return iso.Edit{
		Ignition: config.embedded(), Force: s.Force, Additions: additions,
		Kargs: iso.KargsEdit{Append: k.Append, Delete: k.Delete, Replace: k.Replace},
	}
}

func isoPath(o Options) string {
	if o.Appliance.Spec.ISO.Base == "" {
		return ""
	}
	return filepath.Join(o.Out, ISOFile)
}

// writeISO makes the live ISO of what stands in the stage. It has no store if the
// node has a medium of its own for that.
func (s *stage) writeISO(ctx context.Context, spec Spec, config configFiles, sums map[string]string, hooks Hooks) error {
	embedded := sha256.Sum256(config.embedded())
	inside := map[string]string{isoLock: sums[LockFile], IgnitionFile: hex.EncodeToString(embedded[:])}
	if spec.Node.Store.VolumeLabel == "" {
		inside[isoStore] = sums[StoreFile]
	}
	additions, closeAll, err := additions(s.dir, inside)
	if err != nil {
		return err
	}
	defer closeAll()
	base, err := os.Stat(spec.ISO.Base)
	if err != nil {
		return err
	}
	hooks.step("write ISO", base.Size()+total(additions))
	edit := spec.ISO.edit(config, additions...)
	edit.Written = hooks.Done
	return iso.Apply(ctx, spec.ISO.Base, s.path(ISOFile), edit)
}

// MediumOptions of a medium with the store alone.
type MediumOptions struct {
	// Dir is an appliance's folder, Out the file to write.
	Dir, Out string
	// Label of the volume; "" means PINBOX.
	Label string
	// Hooks tell how far the work is.
	Hooks Hooks
}

// Medium writes what a folder holds to an ISO without a system: a second medium,
// which a node that runs already can read.
func Medium(ctx context.Context, o MediumOptions) error {
	sums, err := readSums(o.Dir)
	if err != nil {
		return err
	}
	additions, closeAll, err := additions(o.Dir, map[string]string{isoStore: sums[StoreFile], isoLock: sums[LockFile]})
	if err != nil {
		return err
	}
	defer closeAll()
	o.Hooks.step("write ISO", total(additions))
	return iso.Create(ctx, o.Out, cmp.Or(o.Label, iso.MediumLabel), mediumTime, additions, o.Hooks.Done)
}

// mediumTime stamps every medium, so that equal folders give equal media: 1980,
// where FAT begins.
var mediumTime = time.Unix(315_532_800, 0)

// additions opens what an ISO gets: what the sums list, and the sums.
func additions(dir string, sums map[string]string) (all []iso.Addition, closeAll func(), err error) {
	var files []*os.File
	closeAll = func() {
		for _, f := range files {
			_ = f.Close() // only read
		}
	}
	text := renderSums(sums)
	all = []iso.Addition{{Name: isoSums, Size: int64(len(text)), Content: bytes.NewReader(text)}}
	for _, file := range []struct{ name, path string }{{isoLock, LockFile}, {isoStore, StoreFile}} {
		if _, ok := sums[file.name]; !ok {
			continue
		}
		f, err := os.Open(filepath.Join(dir, file.path))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		files = append(files, f)
		fi, err := f.Stat()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, iso.Addition{Name: file.name, Size: fi.Size(), Content: f})
	}
	return all, closeAll, nil
}

func total(additions []iso.Addition) (bytes int64) {
	for _, a := range additions {
		bytes += a.Size
	}
	return bytes
}

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
	if f, err := image.Find(path.Join(iso.Dir, isoStore)); err == nil {
		hooks.step("hash "+isoStore, f.Size)
	}
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		got, size, err := sumInside(ctx, image, file, hooks)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if file == isoStore {
			v.StoreSize = size
		}
		if got != sums[file] {
			errs = append(errs, fmt.Errorf("%s has changed: SHA-256 %s, was %s", file, got, sums[file]))
		}
	}
	if f, err := image.Find(path.Join(iso.Dir, isoLock)); err == nil {
		if lock, err := pinset.DecodeLock(f.Reader()); err == nil {
			v.Totals = lock.Totals()
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

func sumInside(ctx context.Context, image *iso.Image, name string, hooks Hooks) (sum string, size int64, err error) {
	var r io.Reader
	if name == IgnitionFile {
		config, err := image.Ignition()
		if err != nil {
			return "", 0, err
		}
		r = bytes.NewReader(config)
	} else {
		f, err := image.Find(path.Join(iso.Dir, name))
		if err != nil {
			return "", 0, err
		}
		r = f.Reader()
	}
	return sumAll(ctx, r, hooks)
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
	for i, m := range info.Added {
		info.Added[i].SHA256 = sums[m.Name]
	}
	if info.Ignition != nil {
		for i, m := range info.Ignition.Members {
			info.Ignition.Members[i].SHA256 = sums[m.Name]
		}
	}
	return info, err
}

// ExtractStore writes the store of an ISO.
func ExtractStore(name string, w io.Writer) error { return extract(name, isoStore, w) }

// ExtractLock writes the lock of an ISO.
func ExtractLock(name string, w io.Writer) error { return extract(name, isoLock, w) }

// ExtractIgnition writes the Ignition config of an ISO.
func ExtractIgnition(name string, w io.Writer) error {
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

func extract(name, file string, w io.Writer) error {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	inside, err := image.Find(path.Join(iso.Dir, file))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = io.Copy(w, inside.Reader())
	return err
}
