package spec

import (
	"cmp"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Config returns the first-boot configuration of the spec, without its Butane files and pull secret.
func (s Spec) Config(sets []pinset.Set, registries []byte) ignition.Config {
	c := ignition.Config{SSHKeys: s.Ignition.SSHAuthorizedKeys, Node: provision.Node{
		Sets: sets, Registries: registries, InternalRepair: s.Node.InternalRepair,
		KeepPrevious: layout.DefaultKeepPrevious, AutoAttach: s.Node.AutoAttach,
		ImageVolumes: s.Node.ImageVolumes,
		Store: provision.Store{
			Path: s.Node.Store.Path, PartitionLabel: s.Node.Store.PartitionLabel, VolumeLabel: s.Node.Store.VolumeLabel,
			URL:            s.Node.Store.URL,
			SELinuxContext: provision.DefaultSELinuxContext, Verity: s.Node.Store.Verity,
		},
	}}
	if !format.Of(s.Store.Format).Describe().Mounted {
		c.Store.Path, c.Store.Folder = "", cmp.Or(s.Node.Store.Path, layout.StoreFolder)
	}
	if s.ISO.ToDisk() {
		c.Store.PartitionLabel = layout.PartitionLabel
	}
	if s.Node.SELinuxContext != nil {
		c.Store.SELinuxContext = *s.Node.SELinuxContext
	}
	if s.Node.KeepPrevious != nil {
		c.KeepPrevious = *s.Node.KeepPrevious
	}
	return c
}
