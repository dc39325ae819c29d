package crio

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// The configuration of containers/storage, which podman and skopeo read, too. Its stores come before those of
// CRI-O's own files. The file of the distribution counts if there is none in /etc: containers-storage.conf(5).
const (
	StorageConf       = "/etc/containers/storage.conf"
	VendorStorageConf = "/usr/share/containers/storage.conf"
)

// The folders if no file sets others.
const (
	DefaultRoot    = "/var/lib/containers/storage"
	DefaultRunRoot = "/run/containers/storage"
)

// Storage is what such a file sets; "" or none for what it does not.
type Storage struct {
	Driver string
	// GraphRoot is the folder of the store, and ImageStore that of its images if it is another one.
	GraphRoot, ImageStore string
	// RunRoot is the folder of the records that do not survive a reboot; with transient_store, those of all containers.
	RunRoot string
	// Stores are the additional image stores.
	Stores []string
}

// ReadStorage reads the content of such a file.
func ReadStorage(content []byte) (Storage, error) {
	var c struct {
		Storage struct {
			Driver  string `toml:"driver"`
			RunRoot string `toml:"runroot"`
			Root    string `toml:"graphroot"`
			Images  string `toml:"imagestore"`
			Options struct {
				Stores []string `toml:"additionalimagestores"`
			} `toml:"options"`
		} `toml:"storage"`
	}
	err := toml.Unmarshal(content, &c)
	return Storage{
		Driver: c.Storage.Driver, GraphRoot: c.Storage.Root, ImageStore: c.Storage.Images, RunRoot: c.Storage.RunRoot,
		Stores: c.Storage.Options.Stores,
	}, err
}

// HasSlots reports whether it lists all slots.
func (s Storage) HasSlots() bool { return missingSlot(s.Stores) == "" }

// missingSlot is a slot that is not among these stores; "" if all are.
func missingSlot(stores []string) string {
	for _, slot := range Slots() {
		if !slices.Contains(stores, slot) {
			return slot
		}
	}
	return ""
}

// ListStores is the line of storage.conf that names stores.
func ListStores(stores []string) string {
	return `additionalimagestores = ["` + strings.Join(stores, `", "`) + `"]`
}

// The list of stores in storage.conf, which may have several lines, and the section that it is in.
var (
	storesList     = regexp.MustCompile(`(?m)^[ \t]*additionalimagestores[^\]]*\].*\n`)
	optionsSection = regexp.MustCompile(`(?m)^[ \t]*\[storage\.options\][ \t]*$`)
)

// AddSlots adds the slots to the storage.conf of a distribution, which stays in force otherwise; nil is none.
func AddSlots(vendor []byte) ([]byte, error) {
	if vendor == nil {
		vendor = []byte("[storage]\ndriver = \"overlay\"\nrunroot = \"" + DefaultRunRoot + "\"\n" +
			"graphroot = \"" + DefaultRoot + "\"\n[storage.options]\n")
	}
	theirs, err := ReadStorage(vendor)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(vendor, []byte("\n")) {
		vendor = append(vendor, '\n')
	}
	list := ListStores(append(theirs.Stores, Slots()...))
	result := optionsSection.ReplaceAllFunc(storesList.ReplaceAllLiteral(vendor, nil), func(section []byte) []byte {
		return fmt.Appendf(nil, "%s\n%s", section, list)
	})
	const title = "# Written by pinbox, of " + VendorStorageConf + " and the read-only image stores.\n"
	result = append([]byte(title), result...)
	if got, err := ReadStorage(result); err != nil || !got.HasSlots() {
		return nil, errors.Join(errors.New("it has no section [storage.options] to which the stores could be added"), err)
	}
	return result, nil
}
