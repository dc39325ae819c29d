package setup

import (
	"fmt"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
)

// quadletDropin applies to all containers of podman's quadlets: podman-systemd.unit(5). Podman 5 reads it.
const quadletDropin = "/etc/containers/systemd/container.d/50-pinbox.conf"

// podman returns the file by which podman sees the stores, none if it does already. If that is storage.conf, CRI-O
// reads it, too, and listed is true: its drop-in does not list the stores again.
func (h host) podman(old Manifest) (files []provision.File, listed bool, notes []string, err error) {
	theirs, err := h.read(crio.StorageConf)
	if err != nil {
		return nil, false, nil, err
	}
	switch storage, err := crio.ReadStorage(theirs); {
	case !h.exists(crio.StorageConf), old.file(crio.StorageConf) != nil:
		vendor, err := h.read(crio.VendorStorageConf)
		if err == nil {
			vendor, err = crio.AddSlots(vendor)
		}
		if err != nil {
			return nil, false, nil, fmt.Errorf("%s: %w", crio.VendorStorageConf, err)
		}
		return []provision.File{text(crio.StorageConf, vendor)}, true, nil, nil
	case err == nil && storage.HasSlots():
		return nil, true, nil, nil
	}
	content := "# Written by pinbox: the read-only image stores.\n[Container]\n"
	for _, slot := range crio.Slots() {
		content += "GlobalArgs=--storage-opt=additionalimagestore=" + slot + "\n"
	}
	return []provision.File{text(quadletDropin, []byte(content))}, false, []string{
		crio.StorageConf + " is a file of somebody else, so only podman's quadlets see the stores; for all of podman, add " +
			"to its section [storage.options]: " + crio.ListStores(crio.Slots()) + " and run setup again",
	}, nil
}
