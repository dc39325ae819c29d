package ignition

import (
	"fmt"
	"path"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/runtime/provision"
)

// Installer is the input of the configuration of a live system that installs CoreOS and the store
// to a disk.
type Installer struct {
	// Disk to install to: a path below /dev.
	Disk string
	// Config is the Ignition config of the installed system. nil means that another program of the
	// live system installs it, as OpenShift's agent does, and only the store is put on the disk.
	Config []byte
	// AppendKargs and DeleteKargs change the kernel arguments of the installed
	// system.
	AppendKargs, DeleteKargs []string
	// CopyNetwork copies the network keyfiles of the live system to the installed one.
	CopyNetwork bool
	// Store is the store of the installed system. That of the live system is the same, and on its
	// medium.
	Store provision.Store
	// SSHKeys of the user core of the live system.
	SSHKeys []string
}

// Where coreos-installer's service looks for its configuration, and where
// `coreos-installer iso customize` puts the Ignition config of the installed system:
// coreos-installer, scripts/coreos-installer-service and src/live/customize.rs.
const (
	installerConfig = "/etc/coreos/installer.d/0000-pinbox.yaml"
	installedConfig = "/etc/coreos/dest.ign"
)

var diskPath = regexp.MustCompile(`^/dev/[A-Za-z0-9][A-Za-z0-9/._:+-]*$`)

// Validate returns an error if a live system could not use the configuration.
func (i Installer) Validate() error {
	if !diskPath.MatchString(i.Disk) || path.Clean(i.Disk) != i.Disk {
		return fmt.Errorf("the disk to install to is %q; it is a path below /dev, without // and .. and no / at its end",
			i.Disk)
	}
	return nil
}

// Render returns the configuration as Butane: equal configurations, equal bytes. The installation
// starts without a command, since coreos-installer's generator finds its configuration file.
func (i Installer) Render() ([]byte, error) {
	doc := newDocument(i.SSHKeys)
	store := i.Store
	store.PartitionLabel = ""
	parts, err := provision.Installer{Disk: i.Disk, Store: store, Beside: i.Config == nil}.Parts()
	if err != nil {
		return nil, err
	}
	if i.Config != nil {
		files, err := i.files()
		if err != nil {
			return nil, err
		}
		parts.Files = append(files, parts.Files...)
	}
	doc.add(parts)
	return doc.encode("Live system that installs to "+i.Disk, "live")
}

// files returns the files of coreos-installer.
func (i Installer) files() ([]provision.File, error) {
	config, err := yaml.Marshal(struct {
		Disk     string   `yaml:"dest-device"`
		Ignition string   `yaml:"ignition-file"`
		Offline  bool     `yaml:"offline"` // the image is on the medium
		Network  bool     `yaml:"copy-network,omitempty"`
		Append   []string `yaml:"append-karg,omitempty"`
		Delete   []string `yaml:"delete-karg,omitempty"`
	}{i.Disk, installedConfig, true, i.CopyNetwork, i.AppendKargs, i.DeleteKargs})
	return []provision.File{ // they may hold secrets
		{Path: installerConfig, Mode: 0o600, Content: config}, {Path: installedConfig, Mode: 0o600, Content: i.Config},
	}, err
}
