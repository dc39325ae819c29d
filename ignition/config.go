// Package ignition writes the first-boot configuration of an appliance: as
// Butane, for people, and as Ignition, for the node.
package ignition

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrButane says that a piece of Butane cannot be translated.
var ErrButane = errors.New("not valid Butane")

// DefaultStorePath is where a CoreOS live system has the file of the ISO.
const DefaultStorePath = "/run/media/iso/pinbox/store.squashfs"

// DefaultSELinuxContext is the label of layers that containers share read-only:
// the policy's for overlay under /var/lib/containers/storage.
const DefaultSELinuxContext = "system_u:object_r:container_ro_file_t:s0"

// SetsDir is the folder of PinnedImageSets that pinbox-node watches.
const SetsDir = "/etc/pinbox/sets.d"

// Config is what the configuration is made from.
type Config struct {
	// Sets that the node pins.
	Sets []pinset.Set
	// Store that the node mounts.
	Store Store
	// InternalRepair leaves CRI-O's repair on.
	InternalRepair bool
	// SSHKeys of the user core.
	SSHKeys []string
	// Snippets of Butane to merge, in this order; later ones win.
	Snippets []Snippet
}

// Store is where a node finds its store, and how it mounts it.
type Store struct {
	// Path of a file; "" means DefaultStorePath.
	Path string
	// PartitionLabel of a GPT partition that holds the store, instead of a file.
	PartitionLabel string
	// SELinuxContext of everything in the store; "" leaves the option out.
	SELinuxContext string
}

// Snippet is a piece of Butane.
type Snippet struct {
	// Name tells where it came from.
	Name    string
	Content []byte
}

func (s Store) what() string {
	switch {
	case s.PartitionLabel != "":
		return "/dev/disk/by-partlabel/" + s.PartitionLabel
	case s.Path != "":
		return s.Path
	}
	return DefaultStorePath
}

func (s Store) options() string {
	options := []string{"ro"}
	if s.PartitionLabel == "" {
		options = append(options, "loop")
	}
	if s.SELinuxContext != "" {
		options = append(options, fmt.Sprintf("context=%q", s.SELinuxContext))
	}
	return strings.Join(options, ",")
}

// unitName is systemd's name for the mount unit of a slot, none of which has a
// character to escape.
func unitName(slot string) string {
	return strings.ReplaceAll(strings.Trim(slot, "/"), "/", "-") + ".mount"
}

// files are all that the configuration writes, but for the units.
func (c Config) files() []file {
	files := []file{
		text(crio.PinnedImagesPath, crio.RenderPinned(pinset.Union(c.Sets...))),
		text(crio.StoresPath, crio.RenderStores(crio.Slots(), c.InternalRepair)),
	}
	for _, s := range c.Sets {
		files = append(files, text(path.Join(SetsDir, s.Name+".yaml"), s.Render()))
	}
	return files
}
