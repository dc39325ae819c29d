package builder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/ignition"
)

// Names of what an ISO holds, in the folder iso.Dir: each has one dot at most,
// which is all that ISO 9660 itself permits.
const (
	isoStore = "store.squashfs"
	isoLock  = "lock.json"
	isoSums  = "sums.txt"
	// The signature of the store, if somebody has signed it.
	isoSignature = "store.sig"
	isoBase      = "base.iso" // which is there in the form of undo.gz
)

// edit is that of the base.
func (s Spec) edit(config configFiles, additions ...iso.Addition) iso.Edit {
	k := s.ISO.KernelArguments
	_, arch, _ := s.Platform.Split()
	return iso.Edit{
		Architecture: arch, Ignition: config.embedded(), Force: s.ISO.Force, Additions: additions,
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
	var err error
	if inside[isoBase], err = sumFile(ctx, spec.ISO.Base, hooks); err != nil {
		return err
	}
	additions, closeAll, err := additions(s.dir, map[string]string{isoStore: StoreFile, isoLock: LockFile}, inside)
	if err != nil {
		return err
	}
	defer closeAll()
	base, err := os.Stat(spec.ISO.Base)
	if err != nil {
		return err
	}
	hooks.step("write "+ISOFile, base.Size()+total(additions))
	edit := spec.edit(config, additions...)
	edit.Written = hooks.Done
	edit.Private = config.secret
	return iso.Apply(ctx, spec.ISO.Base, s.path(ISOFile), edit)
}

// ErrNoMedium says that a node would not look for a second medium.
var ErrNoMedium = errors.New("the node looks for its store elsewhere")

// MediumOptions of a medium with the store alone.
type MediumOptions struct {
	// Dir is the folder of an appliance or of a delta, Out the file to write.
	Dir, Out string
	// Hooks tell how far the work is.
	Hooks Hooks
}

// Medium writes what a folder holds to an ISO without a system: a second medium,
// with the label that the node looks for.
func Medium(ctx context.Context, o MediumOptions) error {
	sums, err := readSums(o.Dir)
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
	sum, err := sumFile(ctx, filepath.Join(o.Dir, store), o.Hooks)
	if err != nil {
		return err
	}
	if sum != sums[store] {
		return fmt.Errorf("%s: %w: %s has changed: SHA-256 %s, was %s", o.Dir, ErrVerify, store, sum, sums[store])
	}
	inside := map[string]string{isoStore: sum, isoLock: sums[LockFile]}
	signature := signatureOf(o.Dir, store)
	if signature != "" {
		if inside[isoSignature], err = sumFile(ctx, filepath.Join(o.Dir, signature), o.Hooks); err != nil {
			return err
		}
	}
	additions, closeAll, err := additions(o.Dir, map[string]string{isoStore: store, isoLock: LockFile, isoSignature: signature}, inside)
	if err != nil {
		return err
	}
	defer closeAll()
	o.Hooks.step("write "+filepath.Base(o.Out), total(additions))
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

// deltaLabel is that of the medium of a delta, by which nodes know one.
const deltaLabel = "PINBOX"

// mediumOf gives the label of a folder's medium, and the store in the folder.
func mediumOf(dir string, sums map[string]string) (label, store string, err error) {
	if isDelta(sums) {
		return deltaLabel, DeltaStoreFile, nil
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

// signatureOf finds the signature that somebody has put beside a store: what gpg(1)
// makes of --detach-sign, and with --armor.
func signatureOf(dir, store string) string {
	for _, suffix := range signatureSuffixes() {
		if _, err := os.Stat(filepath.Join(dir, store+suffix)); err == nil {
			return store + suffix
		}
	}
	return ""
}

func signatureSuffixes() []string { return []string{".sig", ".asc"} }

// additions opens what an ISO gets: what the sums list, and the sums. files are their
// names in the folder.
func additions(dir string, files, sums map[string]string) (all []iso.Addition, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			_ = f.Close() // only read
		}
	}
	text := renderSums(sums)
	all = []iso.Addition{{Name: isoSums, Size: int64(len(text)), Content: bytes.NewReader(text)}}
	for _, name := range []string{isoLock, isoSignature, isoStore} {
		if _, ok := sums[name]; !ok {
			continue
		}
		f, err := os.Open(filepath.Join(dir, files[name]))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, f)
		fi, err := f.Stat()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, iso.Addition{Name: name, Size: fi.Size(), Content: f})
	}
	return all, closeAll, nil
}

func total(additions []iso.Addition) (bytes int64) {
	for _, a := range additions {
		bytes += a.Size
	}
	return bytes
}
