package ignition

import (
	"fmt"
	"regexp"

	ign "github.com/coreos/ignition/v2/config"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/layout"
)

var byLabel = regexp.MustCompile(`(?m)^What=/dev/disk/by-label/(.+)$`)

// VolumeLabel is the label of the medium on which a configuration looks for the
// store, "" if it looks elsewhere.
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

// InstallDisk is the disk that a live system with this configuration installs to, ""
// if to none.
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
