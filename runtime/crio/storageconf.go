package crio

import "github.com/BurntSushi/toml"

// The configuration of containers/storage, which podman and skopeo read, too. Its stores come before those of
// CRI-O's own files. The file of the distribution counts if there is none in /etc: containers-storage.conf(5).
const (
	StorageConf       = "/etc/containers/storage.conf"
	VendorStorageConf = "/usr/share/containers/storage.conf"
)

// StorageConfDriver returns the storage driver that the content of such a file sets; "" if it sets none.
func StorageConfDriver(content []byte) (string, error) {
	var c struct {
		Storage struct {
			Driver string `toml:"driver"`
		} `toml:"storage"`
	}
	err := toml.Unmarshal(content, &c)
	return c.Storage.Driver, err
}

// StorageConfStores returns the additional image stores that the content of such a file names.
func StorageConfStores(content []byte) ([]string, error) {
	var c struct {
		Storage struct {
			Options struct {
				Stores []string `toml:"additionalimagestores"`
			} `toml:"options"`
		} `toml:"storage"`
	}
	err := toml.Unmarshal(content, &c)
	return c.Storage.Options.Stores, err
}
