package iso

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// ErrNoInstaller says that a live system does not install by itself.
var ErrNoInstaller = errors.New("the image cannot install unattended: " + featuresName + " has no installer-config")

const featuresName = "coreos/features.json"

// networkDir is the folder of the Ignition area with keyfiles for the network:
// coreos-installer, src/live/embed.rs.
const networkDir = "etc/coreos-firstboot-network/"

// features are what coreos-installer may rely on, as the image says itself; one
// that says nothing has none.
func (i *Image) features() (f json.RawMessage, installer bool, err error) {
	text, err := i.ReadText(featuresName)
	if errors.Is(err, iso9660.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var known struct {
		Installer bool `json:"installer-config"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, false, fmt.Errorf("%s: %w: %w", featuresName, iso9660.ErrCorrupt, err)
	}
	return text, known.Installer, nil
}

// CheckInstaller finds out whether the live system of an image installs what its
// Ignition config asks for. network says that it has keyfiles for the network.
func CheckInstaller(base string) (network bool, err error) {
	i, f, err := OpenFile(base)
	if err != nil {
		return false, err
	}
	defer f.Close()
	members, err := i.Members()
	if err != nil {
		return false, fmt.Errorf("%s: %w", base, err)
	}
	_, installer, err := i.features()
	if err == nil && !installer {
		err = ErrNoInstaller
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", base, err)
	}
	for _, m := range members {
		network = network || strings.HasPrefix(m.Name, networkDir)
	}
	return network, nil
}
