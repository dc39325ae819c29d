package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
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

// HasLock reports whether an ISO is one that pinbox made.
func HasLock(info iso.Info) bool {
	return slices.ContainsFunc(info.Added, func(m iso.InfoMember) bool { return m.Name == artifact.ISOLock })
}
