package spec

import (
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// validateStore checks the format, and the fields that require a format that nodes mount.
func (s Spec) validateStore() error {
	squash := squashfs.Options{BlockSize: s.Store.BlockSize, Compression: s.Store.Compression}
	if err := squash.Validate(); err != nil {
		return fmt.Errorf("spec.store: %w", err)
	}
	f := format.Of(s.Store.Format)
	if f == nil {
		return fmt.Errorf("spec.store.format is %q; it must be one of %s",
			s.Store.Format, strings.Join(format.Names(), ", "))
	}
	about := f.Describe()
	if about.Mounted {
		return nil
	}
	only := func(field string) error {
		return fmt.Errorf("%s requires spec.store.format %s; it is %s",
			field, format.NamesWith(func(d format.Description) bool { return d.Mounted }), s.Store.Format)
	}
	switch {
	case s.Store.Compression != "":
		return only("spec.store.compression")
	case s.Store.BlockSize != 0:
		return only("spec.store.blockSize")
	case s.ISO.ToDisk():
		return only("spec.iso.mode " + s.ISO.Mode)
	case s.ISO.Base != "":
		return only("spec.iso.base")
	case s.Node.Store.VolumeLabel != "":
		return only("spec.node.store.volumeLabel")
	case s.Node.Store.URL != "":
		return only("spec.node.store.url")
	case s.Node.Store.Verity != "":
		return only("spec.node.store.verity")
	case s.Node.Store.PartitionLabel != "":
		return only("spec.node.store.partitionLabel")
	case !about.MainStore && s.Node.Store.Path == provision.MainStore:
		return fmt.Errorf("spec.node.store.path %s is CRI-O's main store: use spec.store.format %s",
			provision.MainStore, format.NamesWith(func(d format.Description) bool { return d.MainStore }))
	}
	return nil
}
