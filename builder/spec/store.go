package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// validateStore checks the format, and the fields that require a format that nodes mount.
func (s Spec) validateStore() error {
	var errs []error
	for _, field := range []struct {
		name  string
		value squashfs.Options
	}{
		{"compression", squashfs.Options{Compression: s.Store.Compression}},
		{"compressionLevel", squashfs.Options{Level: s.Store.CompressionLevel}},
		{"blockSize", squashfs.Options{BlockSize: s.Store.BlockSize}},
	} {
		if err := field.value.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("spec.store.%s: %w", field.name, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	f := format.Of(s.Store.Format)
	if f == nil {
		return fmt.Errorf("spec.store.format is %q; it must be one of %s",
			s.Store.Format, strings.Join(format.Names(), ", "))
	}
	if s.Store.CompressionLevel != "" && s.Store.Compression == squashfs.None {
		return errors.New("spec.store.compressionLevel does not go with spec.store.compression none")
	}
	if f.Describe().Mounted {
		return nil
	}
	only := func(field string) error {
		return fmt.Errorf("%s requires spec.store.format %s; it is %s",
			field, format.NamesWith(func(d format.Description) bool { return d.Mounted }), s.Store.Format)
	}
	switch {
	case s.Store.Compression != "":
		return only("spec.store.compression")
	case s.Store.CompressionLevel != "":
		return only("spec.store.compressionLevel")
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
	}
	return nil
}
