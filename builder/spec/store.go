package spec

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
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

// Config returns the first-boot configuration of the spec, without its Butane files and pull secret.
func (s Spec) Config(sets []pinset.Set, registries []byte) ignition.Config {
	c := ignition.Config{SSHKeys: s.Ignition.SSHAuthorizedKeys, Node: provision.Node{
		Sets: sets, Registries: registries, InternalRepair: s.Node.InternalRepair,
		KeepPrevious: layout.DefaultKeepPrevious, AutoAttach: s.Node.AutoAttach,
		ImageVolumes: s.Node.ImageVolumes, Service: s.Node.Service,
		Store: provision.Store{
			Path: s.Node.Store.Path, PartitionLabel: s.Node.Store.PartitionLabel, VolumeLabel: s.Node.Store.VolumeLabel,
			URL:            s.Node.Store.URL,
			SELinuxContext: provision.DefaultSELinuxContext, Verity: s.Node.Store.Verity,
		},
	}}
	at := s.Node.Store
	chosen := s.ISO.Base+at.Path+at.PartitionLabel+at.VolumeLabel+at.URL != ""
	switch {
	case !format.Of(s.Store.Format).Describe().Mounted:
		c.Store.Path, c.Store.Folder = "", cmp.Or(s.Node.Store.Path, layout.StoreFolder)
	case s.ISO.ToDisk(), !chosen && s.OpenShift != nil:
		c.Store.PartitionLabel = layout.PartitionLabel
	case !chosen:
		c.Store.Path = layout.NodeStore
	}
	if s.Node.SELinuxContext != nil {
		c.Store.SELinuxContext = *s.Node.SELinuxContext
	}
	if s.Node.KeepPrevious != nil {
		c.KeepPrevious = *s.Node.KeepPrevious
	}
	return c
}
