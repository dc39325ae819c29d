package setup

import (
	"fmt"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"slices"
	"strings"
)

// quadletDropin applies to all containers of podman's quadlets: podman-systemd.unit(5). Podman 5 reads it.
const quadletDropin = "/etc/containers/systemd/container.d/50-pinbox.conf"

// podman returns the file by which podman sees the stores. If that is storage.conf, CRI-O reads it, too, and
// others is true: its drop-in does not list the stores again.
func (h host) podman(old Manifest) (files []provision.File, others bool, notes []string, err error) {
	if h.exists(crio.StorageConf) && old.file(crio.StorageConf) == nil {
		theirs, err := h.read(crio.StorageConf)
		if err != nil {
			return nil, false, nil, err
		}
		if has, err := crio.ReadStorage(theirs); err == nil && !lacksSlot(has.Stores) {
			return nil, true, nil, nil
		}
		var b strings.Builder
		b.WriteString("# Written by pinbox: the read-only image stores.\n[Container]\n")
		for _, slot := range crio.Slots() {
			fmt.Fprintf(&b, "GlobalArgs=--storage-opt=additionalimagestore=%s\n", slot)
		}
		return []provision.File{text(quadletDropin, b.String())}, false, []string{
			crio.StorageConf + " is a file of somebody else, so only podman's quadlets see the stores; for all of podman, add " +
				"to its section [storage.options]: " + listLine(crio.Slots()) + " and run setup again",
		}, nil
	}
	vendor, err := h.read(crio.VendorStorageConf)
	if err == nil {
		vendor, err = withStores(vendor)
	}
	if err != nil {
		return nil, false, nil, fmt.Errorf("%s: %w", crio.VendorStorageConf, err)
	}
	return []provision.File{text(crio.StorageConf, string(vendor))}, true, nil, nil
}

func lacksSlot(stores []string) bool {
	return slices.ContainsFunc(crio.Slots(), func(slot string) bool { return !slices.Contains(stores, slot) })
}

func text(path, content string) provision.File {
	return provision.File{Path: path, Mode: 0o644, Content: []byte(content)}
}

// listLine is the line of storage.conf that names stores.
func listLine(stores []string) string {
	return `additionalimagestores = ["` + strings.Join(stores, `", "`) + `"]`
}

// The section and the key of the list.
const (
	section = "[storage.options]"
	key     = "additionalimagestores"
)

// withStores adds the slots to the configuration of a distribution, which stays in force otherwise.
func withStores(vendor []byte) ([]byte, error) {
	if vendor == nil {
		vendor = []byte("[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\n" +
			"graphroot = \"" + provision.MainStore + "\"\n" + section + "\n")
	}
	theirs, err := crio.ReadStorage(vendor)
	if err != nil {
		return nil, err
	}
	list := listLine(append(theirs.Stores, crio.Slots()...))
	lines := strings.Split(strings.TrimSuffix(string(vendor), "\n"), "\n")
	out := []string{"# Written by pinbox, of " + crio.VendorStorageConf + " and the read-only image stores."}
	for n := 0; n < len(lines); n++ {
		if strings.HasPrefix(strings.TrimSpace(lines[n]), key) {
			for !strings.Contains(lines[n], "]") && n < len(lines)-1 { // it may have several lines
				n++
			}
			continue
		}
		if out = append(out, lines[n]); strings.TrimSpace(lines[n]) == section {
			out = append(out, list)
		}
	}
	result := []byte(strings.Join(out, "\n") + "\n")
	if got, err := crio.ReadStorage(result); err != nil || lacksSlot(got.Stores) {
		return nil, fmt.Errorf("it has no section %s to which the stores could be added: %w", section, err)
	}
	return result, nil
}
