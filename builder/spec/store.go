package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// validateStore checks the format, and the fields that require a format that nodes mount. It reports
// all errors at once.
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
	if s.Store.CompressionLevel != "" && s.Store.Compression == squashfs.None {
		errs = append(errs, errors.New("spec.store.compressionLevel does not go with spec.store.compression none"))
	}
	f := format.Of(s.Store.Format)
	if f == nil {
		errs = append(errs, fmt.Errorf("spec.store.format is %q; it must be one of %s",
			s.Store.Format, strings.Join(format.Names(), ", ")))
	}
	if f == nil || f.Describe().Mounted {
		return errors.Join(errs...)
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.store.compression", s.Store.Compression != ""},
		{"spec.store.compressionLevel", s.Store.CompressionLevel != ""},
		{"spec.store.blockSize", s.Store.BlockSize != 0},
		{"spec.iso.mode " + s.ISO.Mode, s.ISO.ToDisk()},
		{"spec.iso.base", s.ISO.Base != ""},
		{"spec.node.store.volumeLabel", s.Node.Store.VolumeLabel != ""},
		{"spec.node.store.url", s.Node.Store.URL != ""},
		{"spec.node.store.verity", s.Node.Store.Verity != ""},
		{"spec.node.store.partitionLabel", s.Node.Store.PartitionLabel != ""},
	} {
		if field.set {
			errs = append(errs, fmt.Errorf("%s requires spec.store.format %s; it is %s", field.name,
				format.NamesWith(func(d format.Description) bool { return d.Mounted }), s.Store.Format))
		}
	}
	return errors.Join(errs...)
}
