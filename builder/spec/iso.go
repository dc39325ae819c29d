package spec

import (
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
)

// Modes of an ISO.
const (
	ModeLive    = "live"
	ModeInstall = "install"
	ModeAgent   = "agent"
)

// What happens to an Ignition config that the base has already. If left out, that is an error.
const (
	ExistingReplace = "replace"
	ExistingMerge   = "merge"
)

// ToDisk reports whether the store is put on a disk, with the system.
func (i ISO) ToDisk() bool { return i.Mode == ModeInstall || i.Mode == ModeAgent }

// IsZero reports whether no field is set.
func (i ISO) IsZero() bool {
	return i.Base == "" && i.Mode == "" && i.InstallDevice == "" && i.Existing == "" &&
		i.KernelArguments.IsZero() && i.InstalledKernelArguments.IsZero()
}

// IsZero reports whether no argument is changed.
func (k KernelArguments) IsZero() bool { return len(k.Delete)+len(k.Replace)+len(k.Append) == 0 }

// IsZero reports whether no argument is changed.
func (k InstalledKernelArguments) IsZero() bool { return len(k.Delete)+len(k.Append) == 0 }

// validateISO checks spec.iso, and the fields that depend on its mode.
func (s Spec) validateISO() error {
	store, i := s.Node.Store, s.ISO
	switch {
	case i.Mode != "" && i.Mode != ModeLive && !i.ToDisk():
		return fmt.Errorf("spec.iso.mode is %q; it must be live, install or agent", i.Mode)
	case i.Existing != "" && i.Existing != ExistingReplace && i.Existing != ExistingMerge:
		return fmt.Errorf("spec.iso.existing is %q; it must be merge or replace", i.Existing)
	case !i.ToDisk() && i.InstallDevice != "":
		return errors.New("spec.iso.installDevice is for spec.iso.mode install or agent")
	case i.Mode != ModeInstall && !i.InstalledKernelArguments.IsZero():
		return errors.New("spec.iso.installedKernelArguments are for spec.iso.mode install")
	case i.Base == "" && (i.Existing != "" || !i.KernelArguments.IsZero()):
		return errors.New("spec.iso.base is missing: the other fields of spec.iso change a live ISO")
	case !i.ToDisk():
		return nil
	case i.Base == "":
		return fmt.Errorf("spec.iso.base is missing: spec.iso.mode %s needs a live ISO", i.Mode)
	case i.InstallDevice == "":
		return fmt.Errorf("spec.iso.installDevice is missing: spec.iso.mode %s needs a disk", i.Mode)
	case i.Mode == ModeAgent && i.Existing != ExistingMerge:
		return errors.New("spec.iso.existing is not merge: in spec.iso.mode agent the config of the base installs the system")
	case store.Path+store.VolumeLabel+store.URL != "",
		store.PartitionLabel != "" && store.PartitionLabel != layout.PartitionLabel:
		return fmt.Errorf("spec.node.store: in spec.iso.mode %s the store is in the partition %s; leave it out",
			i.Mode, layout.PartitionLabel)
	}
	if err := (ignition.Installer{Disk: i.InstallDevice}).Validate(); err != nil {
		return fmt.Errorf("spec.iso.installDevice: %w", err)
	}
	for _, arg := range append(i.InstalledKernelArguments.Append, i.InstalledKernelArguments.Delete...) {
		if err := iso.CheckKarg(arg); err != nil {
			return fmt.Errorf("spec.iso.installedKernelArguments: %w", err)
		}
	}
	return nil
}
