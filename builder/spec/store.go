package spec

import (
	"fmt"

	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Format is what a store is written as.
type Format string

// Formats of a store. All hold the same tree.
const (
	// FormatSquashfs is an image that nodes mount.
	FormatSquashfs Format = "squashfs"
	// FormatTar is for whoever makes the nodes' file system.
	FormatTar Format = "tar"
	// FormatDir is likewise, and can be CRI-O's own store.
	FormatDir Format = "dir"
)

// IsFolder says whether the store is a folder on the node, which somebody puts there.
func (f Format) IsFolder() bool { return f == FormatTar || f == FormatDir }

// validateStore looks at what a format does not go with.
func (s Spec) validateStore() error {
	squash := squashfs.Options{BlockSize: s.Store.BlockSize, Compression: s.Store.Compression}
	if err := squash.Validate(); err != nil {
		return fmt.Errorf("spec.store: %w", err)
	}
	switch s.Store.Format {
	case "", FormatSquashfs:
		return nil
	case FormatTar, FormatDir:
	default:
		return fmt.Errorf("spec.store.format is %q; it is squashfs, tar or dir", s.Store.Format)
	}
	only := func(field string) error {
		return fmt.Errorf("%s goes with spec.store.format squashfs alone, not with %s", field, s.Store.Format)
	}
	switch {
	case s.Store.Compression != "":
		return only("spec.store.compression")
	case s.Store.BlockSize != 0:
		return only("spec.store.blockSize")
	case s.ISO.Mode == ModeInstall:
		return only("spec.iso.mode install")
	case s.ISO.Base != "":
		return only("spec.iso.base")
	case s.Node.Store.VolumeLabel != "":
		return only("spec.node.store.volumeLabel")
	case s.Node.Store.PartitionLabel != "":
		return only("spec.node.store.partitionLabel")
	case s.Store.Format == FormatTar && s.Node.Store.Path == ignition.MainStore:
		return fmt.Errorf("spec.node.store.path %s is CRI-O's own store, which spec.store.format dir is for", ignition.MainStore)
	}
	return nil
}
