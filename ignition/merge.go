package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	ignerrors "github.com/coreos/ignition/v2/config/shared/errors"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	v36 "github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/vcontext/report"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrMerge says that a configuration cannot be merged with the one that pinbox makes.
var ErrMerge = fault.New(fault.Input, "the Ignition config of the ISO cannot be merged",
	"change the Butane files of the appliance, or make an ISO without these parts")

// Merge adds ours to theirs, the configuration that an ISO has already, as Ignition would at the first boot. The
// version is that of ours, or that of theirs if it is newer. A path, unit or user of which both say something
// else is an ErrMerge that names it; so is one of the reserved names. Notes name what theirs fetches when it boots,
// which nobody can compare.
func Merge(theirs, ours []byte, reserved []string) (merged []byte, notes []string, err error) {
	there, err := readTree(theirs)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	if c, err := parse(theirs); err == nil && c.Ignition.Config.Replace.Source != nil {
		return nil, nil, fmt.Errorf("%w: it is replaced by %s when it boots", ErrMerge,
			shortSource(*c.Ignition.Config.Replace.Source))
	}
	own, err := readTree(ours)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: pinbox's own: %w", ErrMerge, err)
	}
	var conflicts []error
	for _, c := range own.conflicts(there, reserved) {
		conflicts = append(conflicts, fmt.Errorf("%s: the ISO has %s, pinbox %s", c.what, c.theirs, c.ours))
	}
	conflicts = append(conflicts, installers(there, own))
	if err := errors.Join(conflicts...); err != nil {
		return nil, nil, fmt.Errorf("%w:\n%w", ErrMerge, err)
	}
	merged, err = mergeAs(v34.ParseCompatibleVersion, v34.Merge, theirs, ours)
	if errors.Is(err, ignerrors.ErrUnknownVersion) {
		merged, err = mergeAs(v35.ParseCompatibleVersion, v35.Merge, theirs, ours)
	}
	if errors.Is(err, ignerrors.ErrUnknownVersion) {
		merged, err = mergeAs(v36.ParseCompatibleVersion, v36.Merge, theirs, ours)
	}
	if err == nil {
		_, err = parse(merged)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	for _, source := range there.configs {
		notes = append(notes, "the Ignition config of the ISO fetches "+source+" when it boots; if that has a file or unit "+
			"of pinbox, pinbox's is replaced")
	}
	return merged, notes, nil
}

// installers returns an error if the ISO would install something else than pinbox says, or beside it: all files of a
// folder are the options of one run of coreos-installer, which takes each of these once.
func installers(there, own tree) error {
	for _, name := range slices.Sorted(maps.Keys(there.says)) {
		if !strings.HasPrefix(name, path.Dir(installerConfig)+"/") {
			continue
		}
		var options map[string]any
		if err := yaml.Unmarshal(there.files[name], &options); err != nil {
			return fmt.Errorf("%s: the ISO has options of coreos-installer that are not valid: %w", name, err)
		}
		if source, fetched := there.resources[name]; fetched {
			return fmt.Errorf("%s: the ISO fetches options of coreos-installer from %s", name, source)
		}
		for _, option := range []string{"dest-device", "ignition-file", "ignition-url", "image-url"} {
			if value, has := options[option]; has {
				return fmt.Errorf("%s: the ISO has %s: %v and so installs a system; %s", name, option, value, beside(own))
			}
		}
	}
	return nil
}

func beside(own tree) string {
	if own.names[installerConfig] {
		return "pinbox writes these options itself, by spec.iso.installDevice and the Butane files"
	}
	return "give an ISO that was not customized to install, or spec.iso.mode install with such an ISO"
}

// mergeAs merges configurations as those of one version.
func mergeAs[C any](
	parse func([]byte) (C, report.Report, error), merge func(parent, child C) C, theirs, ours []byte,
) ([]byte, error) {
	parent, _, err := parse(theirs)
	if err != nil {
		return nil, err
	}
	child, _, err := parse(ours)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merge(parent, child))
}

// shortSource leaves out the content of a data URL.
func shortSource(source string) string {
	if strings.HasPrefix(source, "data:") {
		return "another one in it"
	}
	return source
}
