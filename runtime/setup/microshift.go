package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/pinset"
)

// releaseLists are the lists of images of MicroShift's packages, microshift-release-info and others.
const releaseLists = "/usr/share/microshift/release"

// greenbootCheck is in the folder of checks that do not fail a boot: a check in required.d would make greenboot
// return to the former image of the system, for an image that is missing.
const greenbootCheck = "/etc/greenboot/check/wanted.d/50_pinbox.sh"

// microShift is MicroShift on a machine: zero if it has none.
type microShift struct{ sets []pinset.Set }

// microShift finds MicroShift: its release lists, and the pause image, which CRI-O pulls and no list has to name.
func (h host) microShift(config crio.Config) (m microShift, notes []string, err error) {
	folder, err := h.folder(releaseLists)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil, nil
	}
	if err != nil {
		return m, nil, err
	}
	defer folder.Close()
	names, _ := fs.Glob(folder.FS(), "release-*.json") // the pattern is valid
	var all []pinset.Image
	for _, name := range names {
		name = path.Join(releaseLists, name)
		images, err := h.readReleaseList(name)
		if err != nil {
			return m, nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, images...)
	}
	if len(all) == 0 {
		return m, nil, nil
	}
	if pause, err := pinset.ParseImage(config.PauseImage); err == nil {
		all = append(all, pause)
	} else if config.PauseImage != "" {
		notes = append(notes, fmt.Sprintf("the pause image %s of CRI-O has no digest, so it cannot be pinned",
			config.PauseImage))
	}
	set := pinset.Set{Name: "microshift"}
	for _, image := range all {
		if !slices.Contains(set.Images, image) {
			set.Images = append(set.Images, image)
		}
	}
	return microShift{sets: []pinset.Set{set}}, notes, nil
}

// readReleaseList reads the images of a list: an object `images` of names with digests, by their names in
// MicroShift.
func (h host) readReleaseList(name string) (images []pinset.Image, err error) {
	content, err := h.read(name)
	if err != nil {
		return nil, err
	}
	var list struct {
		Images map[string]string `json:"images"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	for _, value := range list.Images {
		image, err := pinset.ParseImage(value)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	slices.SortFunc(images, func(a, b pinset.Image) int { return strings.Compare(a.String(), b.String()) })
	return images, nil
}

// files are those of MicroShift alone.
func (m microShift) files(program string) []provision.File {
	if len(m.sets) == 0 {
		return nil
	}
	return []provision.File{{Path: greenbootCheck, Mode: 0o755, Content: fmt.Appendf(nil, `#!/bin/sh
# Written by pinbox: greenboot's log says whether every image is on the node and pinned.
exec %s status
`, program)}}
}
