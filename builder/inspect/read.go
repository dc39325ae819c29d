package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// Options say what else to read, and what is known.
type Options struct {
	// Keys is the file of the keys with which signatures of documents were verified; "" if none was.
	Keys string
	// Good are the documents with good signatures, as builder/verify returns them.
	Good []string
	// Against is an older release to compare with; nil for none.
	Against *release.Release
}

// Read reads what a folder, a live ISO, a medium or a lock holds. Of a lock, and of a store that is no squashfs, it
// reads no files of layers. The store of a thin delta has no layers, and all of them count as elsewhere. An ISO may
// have no store, and nothing else is read of it then.
func Read(ctx context.Context, r *release.Release, o Options) (report Report, err error) {
	var info *iso.Info
	if r.Image != nil {
		read, err := artifact.Inspect(r)
		if err != nil {
			return report, err
		}
		info = &read
		if !HasLock(read) {
			return Report{ISO: info}, nil
		}
	}
	lock, err := r.Lock()
	if err != nil {
		return report, err
	}
	if report, err = readFill(ctx, r, lock); err != nil {
		return report, err
	}
	report.ISO = info
	short, err := r.Short()
	switch {
	case err != nil:
		return report, err
	case short != "":
		report.Warnings = append(report.Warnings, short)
	case lacksStore(r, report):
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("%s: %s is missing: only its lock is shown", r.Name, r.Names.Store))
	}
	if o.Against != nil {
		oldLock, err := o.Against.Lock()
		if err != nil {
			return report, err
		}
		old, err := readFill(ctx, o.Against, oldLock)
		if err != nil {
			return report, err
		}
		report = report.Since(old)
	}
	v := &report.Inventory
	v.Version, v.Keys = Version, o.Keys
	for _, locked := range lock.Images {
		v.Images = append(v.Images, heldImage(locked, lock.Platform))
	}
	if err := v.readRecords(ctx, r, lock); err != nil {
		return report, fmt.Errorf("%s: %w", r.Name, err)
	}
	if v.Documents, err = readDocuments(ctx, r, o.Good); err != nil {
		return report, fmt.Errorf("%s: %w", r.Name, err)
	}
	report.Thin, err = artifact.ReadRecipes(r)
	return report, err
}

// lacksStore reports whether the file of the store that the sums name is not in a folder.
func lacksStore(r *release.Release, report Report) bool {
	return r.Form == release.Folder && slices.Contains(layout.AttachableStores(), r.Names.Store) && !r.InParts() &&
		report.Size == 0
}

// HasLock reports whether an ISO is one that pinbox made.
func HasLock(info iso.Info) bool {
	return slices.ContainsFunc(info.Added, func(m iso.InfoMember) bool { return m.Name == layout.MediumLock })
}

// Report says what fills a store, and what it holds. All sizes are in bytes. What is "stored" is compressed, as it
// stands in the store; equal contents stand there once, and count for the first layer that has them.
type Report struct {
	pinset.ReleaseID
	Platform pinset.Platform `json:"platform"`
	// Size is that of the store; 0 if only a lock was read.
	Size int64 `json:"size"`
	// Stored is what the contents of files take of it.
	Stored int64 `json:"stored"`
	// Images, the largest first.
	Images []Image `json:"images"`
	// Layers are in the order of the images in the lock, each once, lower ones first.
	Layers []Layer `json:"layers"`
	// Largest are the files that take the most of the store, the largest first.
	Largest []File `json:"largest,omitempty"`
	// Hidden are the largest files that no container of an image sees, since a layer above has another file there or
	// removes it: they are stored in vain. Files in folders that a layer above removes are not counted.
	Hidden []File `json:"hidden,omitempty"`
	// HiddenStored is what all of them take of the store.
	HiddenStored int64 `json:"hiddenStored"`
	// Artifacts are the OCI artifacts of the store.
	Artifacts []pinset.LockedArtifact `json:"artifacts,omitempty"`

	// Against is how it differs from an older one; nil if it was compared with none.
	Against *Comparison `json:"against,omitempty"`
	// Inventory is what it holds.
	Inventory Inventory `json:"inventory"`
	// ISO describes an ISO, which may have no store; nil for anything else.
	ISO *iso.Info `json:"iso,omitempty"`
	// Warnings are about a store that is missing or incomplete.
	Warnings []string `json:"warnings,omitempty"`
	// Thin describes a thin delta, which has no layers; nil for anything else.
	Thin *artifact.Recipes `json:"thin,omitempty"`

	tree *Folder
	lock pinset.Lock
}

// Comparison is how a store differs from an older one.
type Comparison struct {
	// ReleaseID, Size and Stored are those of the older one; the sizes are 0 if only its lock was read.
	pinset.ReleaseID
	Size   int64 `json:"size"`
	Stored int64 `json:"stored"`
	pinset.Difference
	// Bytes are the sizes in a registry of the images that are changed, added and removed, by their pins.
	Bytes map[string]int64 `json:"bytes"`
}

// Since returns the report with how it differs from an older one.
func (r Report) Since(old Report) Report {
	c := Comparison{
		ReleaseID: old.ReleaseID, Size: old.Size, Stored: old.Stored, Difference: pinset.Compare(old.lock, r.lock),
		Bytes: map[string]int64{},
	}
	for _, img := range slices.Concat(old.Images, r.Images) {
		if _, same := slices.BinarySearch(c.Unchanged, img.Pin); !same {
			c.Bytes[img.Pin] = img.Blobs
		}
	}
	r.Against = &c
	return r
}

// Image is an image of the store.
type Image struct {
	Pin  string   `json:"pin"`
	Tags []string `json:"tags,omitempty"`
	From []string `json:"from"`
	// Layers are the numbers of its layers in Report.Layers, the lowest first.
	Layers []int `json:"layers"`
	// Blobs is the size of its layers in a registry, and Stored in the store.
	Blobs  int64 `json:"blobs"`
	Stored int64 `json:"stored"`
	// Saving is what the store would lose without the image: contents that no other image has.
	Saving int64 `json:"saving"`
}

// Layer is a layer of one or several images.
type Layer struct {
	DiffID digest.Digest `json:"diffID"`
	// Parent is the number of the layer below; -1 for a lowest one.
	Parent int `json:"parent"`
	// Images is how many images have the layer.
	Images int `json:"images"`
	// Files are its regular files.
	Files int64 `json:"files"`
	// Blob is its size in a registry, Unpacked that of its files, and Stored what they take of the store in addition
	// to the layers before.
	Blob     int64 `json:"blob"`
	Unpacked int64 `json:"unpacked"`
	Stored   int64 `json:"stored"`
	// Elsewhere means that the layer is not in this store: it is in a base of a delta.
	Elsewhere bool `json:"elsewhere,omitempty"`

	id    string
	first string           // the pin of the first image that has it
	image int              // the only one that has it; -1 if several have
	paths map[uint64]int64 // what its files take, by the hash of their paths
}

// File is a file of a layer.
type File struct {
	Path string `json:"path"`
	// Layer is its number in Report.Layers, and Image the pin of the first image that has it.
	Layer  int    `json:"layer"`
	Image  string `json:"image"`
	Size   int64  `json:"size"`
	Stored int64  `json:"stored"`
}

// Folder is a folder of the tree of a report, or a file if it has no members.
type Folder struct {
	Name string `json:"n"`
	// Stored is what it takes of the store, with all of its members.
	Stored int64 `json:"v"`
	// Kind of a file: see kindOf.
	Kind string `json:"k,omitempty"`
	// Members, the largest first.
	Members []*Folder `json:"c,omitempty"`

	byName map[string]*Folder
}
