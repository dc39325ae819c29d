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
)

// IsZero reports whether no field is set.
func (i ISO) IsZero() bool {
	return i.Base == "" && i.Mode == "" && i.InstallDevice == "" && !i.Force &&
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
	case i.Mode != "" && i.Mode != ModeLive && i.Mode != ModeInstall:
		return fmt.Errorf("spec.iso.mode is %q; it must be live or install", i.Mode)
	case i.Mode != ModeInstall && i.InstallDevice != "":
		return errors.New("spec.iso.installDevice is for spec.iso.mode install")
	case i.Mode != ModeInstall && !i.InstalledKernelArguments.IsZero():
		return errors.New("spec.iso.installedKernelArguments are for spec.iso.mode install")
	case i.Base == "" && (i.Force || !i.KernelArguments.IsZero()):
		return errors.New("spec.iso.base is missing: the other fields of spec.iso change a live ISO")
	case i.Mode != ModeInstall:
		return nil
	case i.Base == "":
		return errors.New("spec.iso.base is missing: spec.iso.mode install needs a live ISO")
	case i.InstallDevice == "":
		return errors.New("spec.iso.installDevice is missing: spec.iso.mode install needs a disk")
	case store.Path+store.VolumeLabel != "", store.PartitionLabel != "" && store.PartitionLabel != layout.PartitionLabel:
		return fmt.Errorf("spec.node.store: in spec.iso.mode install the store is in the partition %s; leave it out",
			layout.PartitionLabel)
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
