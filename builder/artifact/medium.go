package artifact

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// ErrNoMedium says that the node's configuration does not name a second medium.
var ErrNoMedium = fault.New(fault.Input, "the node does not expect its store on a medium",
	"set spec.node.store.volumeLabel in the appliance file and build it again; a running node can attach the "+
		"folder itself")

// MediumOptions are the parameters of Medium.
type MediumOptions struct {
	// Dir is the folder of an appliance or a delta, Out the file to write.
	Dir, Out string
	// Split makes a folder with the store in parts, each of less than so many bytes, instead of an ISO; 0 does not.
	Split int64
	// Signer signs the store and the sums of the medium. The zero value takes over the signature of the
	// store that the folder has, if any.
	Signer signature.Signer
	// Hooks report progress.
	Hooks progress.Hooks
}

// Medium writes the store of a folder, with its lock and signatures, to an ISO without an operating system.
// Its volume label is the one that the node looks for.
func Medium(ctx context.Context, o MediumOptions) error {
	r, err := release.Open(o.Dir, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	sums, err := r.Sums()
	if err == nil && r.Form != release.Folder {
		err = fmt.Errorf("%s: %w", o.Dir, release.ErrNotAppliance)
	}
	if err != nil {
		return err
	}
	store := r.Names.Store
	if o.Split > 0 {
		return split(ctx, o, store, sums)
	}
	if err := writable(o.Out, o.Dir); err != nil {
		return err
	}
	label, err := mediumLabel(r)
	if err != nil {
		return err
	}
	sum, err := SumFile(ctx, filepath.Join(o.Dir, store), o.Hooks)
	if err != nil {
		return err
	}
	if sum != sums[store] {
		return fmt.Errorf("%s: %w: %s has changed: SHA-256 %s, want %s", o.Dir, release.ErrVerify, store, sum, sums[store])
	}
	rootHash := layout.RootHashFile(store)
	inside := map[string]string{
		layout.MediumStore:    sum,
		layout.MediumLock:     sums[layout.LockFile],
		layout.ProvenanceFile: sums[layout.ProvenanceFile],
	}
	if sums[rootHash] != "" { // a thin delta has no hash tree
		inside[layout.MediumRootHash] = sums[rootHash]
	}
	signing, err := o.sign(store, sum)
	if err != nil {
		return err
	}
	statement, err := input.Read(filepath.Join(o.Dir, layout.ProvenanceFile))
	if err != nil {
		return err
	}
	files := map[string]string{
		layout.MediumStore: store, layout.MediumLock: layout.LockFile, layout.MediumRootHash: rootHash,
	}
	additions, closeAll, err := additions(o.Dir, files, statement, inside, signing)
	if err != nil {
		return err
	}
	defer closeAll()
	o.Hooks.Begin("write "+filepath.Base(o.Out), total(additions))
	fi, err := os.Stat(filepath.Join(o.Dir, store))
	if err != nil {
		return err
	}
	return iso.Create(ctx, o.Out, label, fi.Mode().Perm()&0o644, mediumTime, additions, o.Hooks.Done)
}

// sign signs the store with this sum, or takes over its signature.
func (o MediumOptions) sign(store, sum string) (s signing, err error) {
	s.signer = o.Signer
	if o.Signer.IsZero() {
		s.store, err = signature.ReadBeside(filepath.Join(o.Dir, store), nil)
	} else {
		s.store, err = o.Signer.Sign(layout.StoreSums(sum))
	}
	return s, err
}

// Errors of an output that Medium does not overwrite.
var (
	ErrNotISO = fault.New(fault.Usage, "exists and is not an ISO, so it is not overwritten",
		"give another name with -o, or remove it")
	ErrInside = fault.New(fault.Usage, "is in the folder that the medium is made of",
		"give another name with -o")
)

// writable protects the folder, and files that are not ISOs, from being overwritten by mistake.
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
		return nil // iso.Create reports other problems
	}
	r, err := OpenISO(name)
	if err != nil {
		return fmt.Errorf("%s %w", name, ErrNotISO)
	}
	return r.Close()
}

// mediumLabel returns the volume label for the medium of a folder.
func mediumLabel(r *release.Release) (label string, err error) {
	if r.IsDelta() {
		return layout.MediumLabel, nil
	}
	config, err := input.Read(filepath.Join(r.Name, IgnitionFile))
	if err != nil {
		return "", err
	}
	label, err = ignition.VolumeLabel(config)
	if err == nil && label == "" {
		err = ErrNoMedium
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Name, err)
	}
	return label, nil
}

// mediumTime is the time of every medium, so that equal folders give equal media: 1980-01-01, the first
// date of FAT.
var mediumTime = time.Unix(315_532_800, 0)
