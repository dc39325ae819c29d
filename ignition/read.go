package ignition

import (
	"fmt"
	"regexp"

	ign "github.com/coreos/ignition/v2/config"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/layout"
)

var byLabel = regexp.MustCompile(`(?m)^What=/dev/disk/by-label/(.+)$`)

// VolumeLabel returns the volume label of the medium that a configuration mounts the store from,
// "" if it mounts it from elsewhere.
func VolumeLabel(config []byte) (string, error) {
	c, _, err := ign.Parse(config)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrButane, err)
	}
	for _, u := range c.Systemd.Units {
		if u.Name != unitName(layout.MediumMount) || u.Contents == nil {
			continue
		}
		if m := byLabel.FindStringSubmatch(*u.Contents); m != nil {
			return m[1], nil
		}
	}
	return "", nil
}

// InstallDisk returns the disk that a live system with this configuration installs to, "" if it
// installs nothing.
func InstallDisk(config []byte) string {
	files, err := Files(config)
	if err != nil {
		return ""
	}
	var installer struct {
		Disk string `yaml:"dest-device"`
	}
	if err := yaml.Unmarshal(files[installerConfig], &installer); err != nil {
		return ""
	}
	return installer.Disk
}
