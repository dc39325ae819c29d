package crio

import "github.com/BurntSushi/toml"

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
