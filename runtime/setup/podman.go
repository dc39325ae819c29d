package setup

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
			vendor, err = withStores(vendor)
		}
		if err != nil {
			return nil, false, nil, fmt.Errorf("%s: %w", crio.VendorStorageConf, err)
		}
		return []provision.File{text(crio.StorageConf, string(vendor))}, true, nil, nil
	case err == nil && !lacksSlot(storage.Stores):
		return nil, true, nil, nil
	}
	content := "# Written by pinbox: the read-only image stores.\n[Container]\n"
	for _, slot := range crio.Slots() {
		content += "GlobalArgs=--storage-opt=additionalimagestore=" + slot + "\n"
	}
	return []provision.File{text(quadletDropin, content)}, false, []string{
		crio.StorageConf + " is a file of somebody else, so only podman's quadlets see the stores; for all of podman, add " +
			"to its section [storage.options]: " + listLine(crio.Slots()) + " and run setup again",
	}, nil
}

func lacksSlot(stores []string) bool {
	return slices.ContainsFunc(crio.Slots(), func(slot string) bool { return !slices.Contains(stores, slot) })
}

// listLine is the line of storage.conf that names stores.
func listLine(stores []string) string {
	return `additionalimagestores = ["` + strings.Join(stores, `", "`) + `"]`
}

// The list of stores in storage.conf, which may have several lines, and the section that it is in.
var (
	storesList     = regexp.MustCompile(`(?m)^[ \t]*additionalimagestores[^\]]*\].*\n`)
	optionsSection = regexp.MustCompile(`(?m)^[ \t]*\[storage\.options\][ \t]*$`)
)

// withStores adds the slots to the configuration of a distribution, which stays in force otherwise.
func withStores(vendor []byte) ([]byte, error) {
	if vendor == nil {
		vendor = []byte("[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\n" +
			"graphroot = \"" + provision.MainStore + "\"\n[storage.options]\n")
	}
	theirs, err := crio.ReadStorage(vendor)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(vendor, []byte("\n")) {
		vendor = append(vendor, '\n')
	}
	list := listLine(append(theirs.Stores, crio.Slots()...))
	result := optionsSection.ReplaceAllFunc(storesList.ReplaceAllLiteral(vendor, nil), func(section []byte) []byte {
		return fmt.Appendf(nil, "%s\n%s", section, list)
	})
	const title = "# Written by pinbox, of " + crio.VendorStorageConf + " and the read-only image stores.\n"
	result = append([]byte(title), result...)
	if got, err := crio.ReadStorage(result); err != nil || lacksSlot(got.Stores) {
		return nil, errors.Join(errors.New("it has no section [storage.options] to which the stores could be added"), err)
	}
	return result, nil
}
