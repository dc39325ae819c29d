package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// releaseLists are the lists of images of MicroShift's packages, microshift-release-info and others.
const releaseLists = "/usr/share/microshift/release"

// greenbootCheck is in the folder of checks that do not fail a boot: a check in required.d would make greenboot
// return to the former image of the system, for an image that is missing.
const greenbootCheck = "/etc/greenboot/check/wanted.d/50_pinbox.sh"

// ErrReleaseList means that a list of MicroShift's images cannot be used: nothing would be pinned by it.
var ErrReleaseList = fault.New(fault.Input, "not a list of MicroShift's images",
	"install its package microshift-release-info again")

// microShift is the set of MicroShift on a machine, none if it has none: the images of its release lists, and the
// pause image, which CRI-O pulls and no list has to name.
func (h host) microShift(found crio.Effective) (sets []pinset.Set, notes []string, err error) {
	folder, err := h.folder(releaseLists)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer folder.Close()
	names, _ := fs.Glob(folder.FS(), "release-*.json") // the pattern is valid
	set := pinset.Set{Name: "microshift"}
	for _, name := range names {
		name = path.Join(releaseLists, name)
		if err := h.addReleaseList(name, &set); err != nil {
			return nil, nil, fault.Wrap(ErrReleaseList, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(set.Images) == 0 {
		return nil, nil, nil
	}
	if pause, err := pinset.ParseImage(found.PauseImage); err == nil {
		set.Images = append(set.Images, pause)
	} else if found.PauseImage != "" {
		notes = []string{fmt.Sprintf("the pause image %s of CRI-O has no digest, so it cannot be pinned", found.PauseImage)}
	}
	set.Images = pinset.Union(set)
	return []pinset.Set{set}, notes, nil
}

// addReleaseList adds the images of a list: an object `images` of names with digests, by their names in MicroShift.
func (h host) addReleaseList(name string, set *pinset.Set) error {
	content, err := h.read(name)
	if err != nil {
		return err
	}
	var list struct {
		Images map[string]string `json:"images"`
	}
	if len(content) == 0 {
		return errors.New("it is empty")
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return err
	}
	for _, value := range list.Images {
		image, err := pinset.ParseImage(value)
		if err != nil {
			return err
		}
		set.Images = append(set.Images, image)
	}
	return nil
}

// greenboot is the check of a program's node.
func greenboot(program string) provision.File {
	return provision.File{Path: greenbootCheck, Mode: 0o755, Content: fmt.Appendf(nil, `#!/bin/sh
# Written by pinbox: greenboot's log says whether every image is on the node and pinned.
exec %s status
`, program)}
}
