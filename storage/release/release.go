package release

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Errors of opening and reading a release.
var (
	ErrVerify = fault.New(fault.Damaged, "verification failed",
		"copy it again from an intact copy, or build it again")
	ErrNotAppliance = fault.New(fault.Input, "not an appliance's folder or ISO",
		"name a folder or an ISO that `pinbox build` or `pinbox delta` made")
)

// Form is how the files of a release are kept.
type Form int

// Forms of releases.
const (
	Folder   Form = iota // of files with their sums
	Medium               // an ISO 9660 image, in a file or on a device
	Mounted              // the folder where a store is mounted
	LockOnly             // a lock, without anything else
)

// Names are the names of documents in the form of a release; "" for what the form does not have, or for a store of
// which nothing is known.
type Names struct{ Sums, Lock, Provenance, Store, RootHash string }

// Release is an opened release. It is for one goroutine.
type Release struct {
	// Name is the path that it was opened by.
	Name  string
	Form  Form
	Names Names
	// Image is the image of a medium, which may have no release; nil in other forms.
	Image *iso9660.Image

	dir    string // that the names are in
	opened []io.Closer
	file   *os.File // of a medium
	store  *Store   // nil before Store has found it
	sums   layout.Sums
	noSums error         // why there are none
	signed bool          // the sums have a good signature
	lock   digest.Digest // what ID has found; "" before
}

// Open opens a release. If there are keys, one of them must have signed the sums, and Read and Lock compare what they
// read with the sums. The caller closes it.
func Open(name string, keys signature.Keys) (*Release, error) {
	r := &Release{Name: name, dir: name}
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		r.Names = Names{Sums: layout.SumsFile, Lock: layout.LockFile, Provenance: layout.ProvenanceFile}
		if own, err := os.Stat(filepath.Join(name, layout.OwnLock)); err == nil && own.Mode().IsRegular() {
			r.Form, r.Names = Mounted, Names{Lock: layout.OwnLock}
		}
	} else {
		r.Form, r.dir = Medium, layout.MediumDir
		r.Names = Names{
			Sums: layout.MediumSums, Lock: layout.MediumLock, Provenance: layout.ProvenanceFile,
			Store: layout.MediumStore, RootHash: layout.MediumRootHash,
		}
		r.Image, r.file, err = iso9660.OpenFile(name)
		switch {
		case err == nil:
			r.opened = append(r.opened, r.file)
		case errors.Is(err, iso9660.ErrNotISO):
			r.Form, r.dir = LockOnly, filepath.Dir(name)
			r.Names = Names{Lock: filepath.Base(name)}
		default:
			return nil, err
		}
	}
	if err = r.readSums(keys); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close closes all files.
func (r *Release) Close() (err error) {
	for _, c := range r.opened {
		err = errors.Join(err, c.Close())
	}
	return err
}

// readSums reads the sums, and checks their signature before it parses them. Without keys, it keeps why they cannot be
// read for who asks for them.
func (r *Release) readSums(keys signature.Keys) error {
	text, err := r.sumsText()
	if err == nil && !keys.IsEmpty() {
		var proof []byte
		if proof, err = r.Signature(r.Names.Sums); err == nil {
			err = keys.Verify(text, proof)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", r.Name, r.Names.Sums, err)
		}
		r.signed = true
	}
	if err == nil {
		if r.sums, err = layout.ReadSums(bytes.NewReader(text), layout.MaxFolderSums); err != nil {
			err = fmt.Errorf("%s: %w: %s: %w", r.Name, ErrVerify, r.Names.Sums, err)
		}
	}
	if r.noSums = err; err != nil && !keys.IsEmpty() {
		return err
	}
	if r.Form == Folder {
		if r.Names.Store = r.storeName(); r.Names.Store != "" {
			r.Names.RootHash = layout.RootHashFile(r.Names.Store)
		}
	}
	return nil
}

func (r *Release) sumsText() ([]byte, error) {
	if r.Names.Sums == "" {
		return nil, fmt.Errorf("%s: %w", r.Name, ErrNotAppliance)
	}
	text, err := r.Read(r.Names.Sums, layout.MaxFolderSums)
	if IsMissing(err) {
		kind := ErrNotAppliance
		if _, err := os.Stat(filepath.Join(r.dir, r.Names.Lock)); r.Form == Folder && err == nil {
			kind = ErrVerify // it was an appliance
		}
		err = fault.Wrap(kind, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	return text, nil
}

// Sums returns the sums. The error is ErrNotAppliance if there are none, and ErrVerify if they are damaged.
func (r *Release) Sums() (layout.Sums, error) { return r.sums, r.noSums }

// IsDelta reports whether it is a delta, by its sums.
func (r *Release) IsDelta() bool {
	return r.sums[layout.DeltaFile]+r.sums[layout.DeltaStoreFile]+r.sums[layout.ThinStoreFile] != ""
}
