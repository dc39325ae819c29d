package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
)

// The configuration of storage for podman, skopeo and CRI-O: containers-storage.conf(5). A distribution's own is
// in /usr, or, before Fedora 41 and RHEL 10, in /etc as a file of a package.
const (
	storageConf       = "/etc/containers/storage.conf"
	vendorStorageConf = "/usr/share/containers/storage.conf"
)

// quadletDropin applies to all containers of podman's quadlets: podman-systemd.unit(5). Podman 5 reads it.
const quadletDropin = "/etc/containers/systemd/container.d/50-pinbox.conf"

// podman returns the file by which podman sees the stores. If that is storage.conf, CRI-O reads it, too, and
// others is true: its drop-in does not list the stores again.
func (h host) podman(old Manifest) (files []provision.File, others bool, notes []string, err error) {
	if h.exists(storageConf) && old.file(storageConf) == nil {
		theirs, err := h.read(storageConf)
		if err != nil {
			return nil, false, nil, err
		}
		if has, err := storesOf(theirs); err == nil && !lacksSlot(has) {
			return nil, true, nil, nil
		}
		var b strings.Builder
		b.WriteString("# Written by pinbox: the read-only image stores.\n[Container]\n")
		for _, slot := range crio.Slots() {
			fmt.Fprintf(&b, "GlobalArgs=--storage-opt=additionalimagestore=%s\n", slot)
		}
		return []provision.File{text(quadletDropin, b.String())}, false, []string{
			storageConf + " is a file of somebody else, so only podman's quadlets see the stores; for all of podman, add " +
				"to its section [storage.options]: " + listLine(crio.Slots()) + " and run setup again",
		}, nil
	}
	vendor, err := h.read(vendorStorageConf)
	if err == nil {
		vendor, err = withStores(vendor)
	}
	if err != nil {
		return nil, false, nil, fmt.Errorf("%s: %w", vendorStorageConf, err)
	}
	return []provision.File{text(storageConf, string(vendor))}, true, nil, nil
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

// storesOf returns the stores that a storage.conf names.
func storesOf(conf []byte) ([]string, error) {
	var c struct {
		Storage struct {
			Options struct {
				Stores []string `toml:"additionalimagestores"`
			} `toml:"options"`
		} `toml:"storage"`
	}
	err := toml.Unmarshal(conf, &c)
	return c.Storage.Options.Stores, err
}

// withStores adds the slots to the configuration of a distribution, which stays in force otherwise.
func withStores(vendor []byte) ([]byte, error) {
	if vendor == nil {
		vendor = []byte("[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\n" +
			"graphroot = \"" + provision.MainStore + "\"\n" + section + "\n")
	}
	theirs, err := storesOf(vendor)
	if err != nil {
		return nil, err
	}
	list := listLine(append(theirs, crio.Slots()...))
	lines := strings.Split(strings.TrimSuffix(string(vendor), "\n"), "\n")
	out := []string{"# Written by pinbox, of " + vendorStorageConf + " and the read-only image stores."}
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
	if got, err := storesOf(result); err != nil || lacksSlot(got) {
		return nil, fmt.Errorf("it has no section %s to which the stores could be added: %w", section, err)
	}
	return result, nil
}
