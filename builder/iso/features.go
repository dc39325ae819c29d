package iso

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// ErrNoInstaller is returned for a live system that cannot install unattended.
var ErrNoInstaller = fault.New(fault.Input,
	"the image cannot install unattended: "+featuresName+" has no installer-config",
	"use a newer live ISO, or spec.iso.mode live and install by hand")

const featuresName = "coreos/features.json"

// networkDir is the folder of the Ignition area with keyfiles for the network:
// coreos-installer, src/live/embed.rs.
const networkDir = "etc/coreos-firstboot-network/"

// features are the features that the image announces to coreos-installer; nil if it has no such
// file.
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
