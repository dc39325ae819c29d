package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
)

// ErrNoMedium says that a node would not look for a second medium.
var ErrNoMedium = errors.New("the node looks for its store elsewhere")

// MediumOptions of a medium with the store alone.
type MediumOptions struct {
	// Dir is the folder of an appliance or of a delta, Out the file to write.
	Dir, Out string
	// Hooks tell how far the work is.
	Hooks progress.Hooks
}

// Medium writes what a folder holds to an ISO without a system: a second medium,
// with the label that the node looks for.
func Medium(ctx context.Context, o MediumOptions) error {
	sums, err := ReadSums(o.Dir)
	if err != nil {
		return err
	}
	if err := writable(o.Out, o.Dir); err != nil {
		return err
	}
	label, store, err := mediumOf(o.Dir, sums)
	if err != nil {
		return err
	}
	sum, err := SumFile(ctx, filepath.Join(o.Dir, store), o.Hooks)
	if err != nil {
		return err
	}
	if sum != sums[store] {
		return fmt.Errorf("%s: %w: %s has changed: SHA-256 %s, was %s", o.Dir, ErrVerify, store, sum, sums[store])
	}
	inside := map[string]string{ISOStore: sum, ISOLock: sums[LockFile]}
	signature := signatureOf(o.Dir, store)
	if signature != "" {
		if inside[ISOSignature], err = SumFile(ctx, filepath.Join(o.Dir, signature), o.Hooks); err != nil {
			return err
		}
	}
	additions, closeAll, err := additions(o.Dir, map[string]string{ISOStore: store, ISOLock: LockFile,
		ISOSignature: signature}, inside)
	if err != nil {
		return err
	}
	defer closeAll()
	o.Hooks.Begin("write "+filepath.Base(o.Out), total(additions))
	return iso.Create(ctx, o.Out, label, mediumTime, additions, o.Hooks.Done)
}

// What a medium is not written to.
var (
	ErrNotISO = errors.New("is there and no ISO, so it is not written over")
	ErrInside = errors.New("is in the folder, which would not be what it was")
)

// writable refuses to write over what was named by mistake.
func writable(name, dir string) error {
	folder, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err != nil {
		return err
	}
	if inside, err := os.Stat(folder); err == nil {
		if of, err := os.Stat(dir); err == nil && os.SameFile(inside, of) {
			return fmt.Errorf("%s %w", name, ErrInside)
		}
	}
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 {
		return nil // what else is wrong is found out where it is written
	}
	_, f, err := iso.OpenFile(name)
	if err != nil {
		return fmt.Errorf("%s %w", name, ErrNotISO)
	}
	return f.Close()
}

// mediumOf gives the label of a folder's medium, and the store in the folder.
func mediumOf(dir string, sums layout.Sums) (label, store string, err error) {
	if IsDelta(sums) {
		return layout.MediumLabel, DeltaStoreFile, nil
	}
	config, err := os.ReadFile(filepath.Join(dir, IgnitionFile))
	if err != nil {
		return "", "", err
	}
	label, err = ignition.VolumeLabel(config)
	if err == nil && label == "" {
		err = ErrNoMedium
	}
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", dir, err)
	}
	return label, StoreFile, nil
}

// mediumTime stamps every medium, so that equal folders give equal media: 1980,
// where FAT begins.
var mediumTime = time.Unix(315_532_800, 0)

// signatureOf finds the signature that somebody has put beside a store.
func signatureOf(dir, store string) string {
	for _, suffix := range layout.SignatureSuffixes() {
		if _, err := os.Stat(filepath.Join(dir, store+suffix)); err == nil {
			return store + suffix
		}
	}
	return ""
}
