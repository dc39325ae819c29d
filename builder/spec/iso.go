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

// validateISO checks spec.iso, and the fields that depend on its mode. It reports all errors at once.
func (s Spec) validateISO() error {
	store, i := s.Node.Store, s.ISO
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	knownMode := i.Mode == "" || i.Mode == ModeLive || i.ToDisk()
	knownExisting := i.Existing == "" || i.Existing == ExistingReplace || i.Existing == ExistingMerge
	if !knownMode {
		refuse("spec.iso.mode is %q; it must be live, install or agent", i.Mode)
	}
	if !knownExisting {
		refuse("spec.iso.existing is %q; it must be merge or replace", i.Existing)
	}
	if knownMode && !i.ToDisk() && i.InstallDevice != "" {
		refuse("spec.iso.installDevice is for spec.iso.mode install or agent")
	}
	if knownMode && i.Mode != ModeInstall && !i.InstalledKernelArguments.IsZero() {
		refuse("spec.iso.installedKernelArguments are for spec.iso.mode install")
	}
	switch {
	case i.Base == "" && i.ToDisk():
		refuse("spec.iso.base is missing: spec.iso.mode %s needs a live ISO", i.Mode)
	case i.Base == "" && (i.Existing != "" || !i.KernelArguments.IsZero()):
		refuse("spec.iso.base is missing: the other fields of spec.iso change a live ISO")
	}
	for _, arg := range append(i.InstalledKernelArguments.Append, i.InstalledKernelArguments.Delete...) {
		if err := iso.CheckKarg(arg); err != nil {
			refuse("spec.iso.installedKernelArguments: %w", err)
		}
	}
	if !i.ToDisk() {
		return errors.Join(errs...)
	}
	if i.InstallDevice == "" {
		refuse("spec.iso.installDevice is missing: spec.iso.mode %s needs a disk", i.Mode)
	} else if err := (ignition.Installer{Disk: i.InstallDevice}).Validate(); err != nil {
		refuse("spec.iso.installDevice: %w", err)
	}
	if i.Mode == ModeAgent && knownExisting && i.Existing != ExistingMerge {
		refuse("spec.iso.existing is not merge: in spec.iso.mode agent the config of the base installs the system")
	}
	if store.Path+store.VolumeLabel+store.URL != "" ||
		store.PartitionLabel != "" && store.PartitionLabel != layout.PartitionLabel {
		refuse("spec.node.store: in spec.iso.mode %s the store is in the partition %s; leave it out",
			i.Mode, layout.PartitionLabel)
	}
	return errors.Join(errs...)
}
