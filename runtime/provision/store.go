package provision

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// MainStore is the graph root of CRI-O's main store: containers-storage.conf(5).
const MainStore = "/var/lib/containers/storage"

// DefaultSELinuxContext is the label of layers that containers share read-only:
// the policy's for overlay under /var/lib/containers/storage.
const DefaultSELinuxContext = "system_u:object_r:container_ro_file_t:s0"

// Store describes where a node finds its store, and how it mounts it.
type Store struct {
	// None is for a node without a store of its own: it mounts only stores that are attached to it.
	None bool
	// Path of a file; "" means layout.LiveStorePath.
	Path string
	// PartitionLabel of a GPT partition that holds the store, instead of a file.
	PartitionLabel string
	// VolumeLabel of a medium with the store alone, instead of a file.
	VolumeLabel string
	// URL of the store on an HTTP server, and of pinbox-node next to it, instead of a file. Size is the size of
	// the store in bytes.
	URL  string
	Size int64
	// Folder of a store that another program copies there, instead of all these: nothing is
	// mounted. It may be MainStore.
	Folder string
	// SELinuxContext of everything in the store and in stores that are attached later;
	// "" leaves the option out.
	SELinuxContext string
	// Verity is when stores are mounted by dm-verity; "" means layout.VerityAuto.
	Verity layout.Verity
	// Digest of the file of the store; "" if it has none.
	Digest digest.Digest
	// Tree is the hash tree of the store; zero if it has none.
	Tree verity.Tree
	// Program is the pinbox-node in the store.
	Program pinset.Program
}

// What a unit may contain without quoting.
var (
	nodePath       = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)
	volumeLabel    = regexp.MustCompile(`^[A-Z0-9_]{1,16}$`)
	partitionLabel = regexp.MustCompile(`^[A-Za-z0-9._-]{1,36}$`)
	storeURL       = regexp.MustCompile(`^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~+=,@:-]+)+$`)
	selinuxContext = regexp.MustCompile(`^[a-z0-9_]+:[a-z0-9_]+:[a-z0-9_]+(:[a-z0-9:,.-]+)?$`)
)

// ValidPath reports whether units can contain a path without quoting.
func ValidPath(name string) bool { return nodePath.MatchString(name) && path.Clean(name) == name }

// validate returns an error if a node could not use the store.
func (s Store) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Path != "" && s.PartitionLabel != "" || s.Path+s.PartitionLabel != "" && s.VolumeLabel != "" ||
		s.Path+s.PartitionLabel+s.VolumeLabel+s.Folder != "" && s.URL != "" {
		refuse("the node's store has more than one of path, partitionLabel, volumeLabel and url; give one")
	}
	if s.URL != "" && !storeURL.MatchString(s.URL) {
		refuse("the node's store has the URL %q; it is http:// or https://, a host without a password, and "+
			"the path of a file with letters, digits and ._~+=,@:- only", s.URL)
	}
	switch {
	case s.Folder != "" && !ValidPath(s.Folder):
		refuse("the node's store has the folder %q; it starts with / and has letters, digits and ._-/ only", s.Folder)
	case s.Folder == layout.SlotsDir, strings.HasPrefix(s.Folder, layout.SlotsDir+"/"):
		refuse("the node's store has the folder %q, where other stores are mounted; use %s", s.Folder, layout.StoreFolder)
	}
	if s.VolumeLabel != "" && !volumeLabel.MatchString(s.VolumeLabel) {
		refuse("the node's store has the volume label %q; it has 1 to 16 of A to Z, digits and _", s.VolumeLabel)
	}
	switch {
	case s.Path != "" && !ValidPath(s.Path):
		refuse("the node's store has the path %q; it starts with / and has letters, digits and ._-/ only", s.Path)
	case strings.HasPrefix(s.Path, layout.SlotsDir+"/"):
		refuse("the node's store has the path %q, which its own mount would hide", s.Path)
	}
	if s.PartitionLabel != "" && !partitionLabel.MatchString(s.PartitionLabel) {
		refuse("the node's store has the partition label %q; it has 1 to 36 letters, digits and ._- only", s.PartitionLabel)
	}
	if s.SELinuxContext != "" && !selinuxContext.MatchString(s.SELinuxContext) {
		refuse("%q is not an SELinux context, such as %s", s.SELinuxContext, DefaultSELinuxContext)
	}
	return errors.Join(errs...)
}

// NodePath is the path on the node of the file or device that it mounts, or of the folder.
func (s Store) NodePath() string {
	switch {
	case s.Folder != "":
		return s.Folder
	case s.PartitionLabel != "":
		return "/dev/disk/by-partlabel/" + s.PartitionLabel
	case s.VolumeLabel != "":
		return path.Join(layout.MediumMount, layout.MediumDir, layout.MediumStore)
	case s.URL != "":
		return layout.NodeStore
	case s.Path != "":
		return s.Path
	}
	return layout.LiveStorePath
}

// env is what the script has to know. keys is whether the node has some.
func (s Store) env(keys bool) (e layout.StoreEnv) {
	if s.Program.Digest != "" {
		e.Program = s.Program.Digest.Encoded()
	}
	if s.None || s.Folder != "" {
		return e
	}
	e.Path, e.Label, e.Verity = s.NodePath(), s.PartitionLabel+s.VolumeLabel, cmp.Or(s.Verity, layout.VerityAuto)
	if keys && e.Verity != layout.VerityOff {
		e.Verity = layout.VerityRequire
	}
	if !s.Tree.IsZero() {
		e.RootHash, e.Blocks = s.Tree.Root.Encoded(), s.Tree.Blocks
	}
	return e
}

func (s Store) options() string {
	// nofail: without its store the machine still boots, so that somebody can log in.
	// nosuid, nodev: only containers need the devices and set-user-ID programs of an image, and
	// they have mounts of their own.
	options := []string{"ro", "nosuid", "nodev", "nofail"}
	if s.SELinuxContext != "" {
		options = append(options, fmt.Sprintf("context=%q", s.SELinuxContext))
	}
	return strings.Join(options, ",")
}

// Additional are the additional image stores of CRI-O.
func (s Store) Additional() []string {
	if s.Folder == "" || s.Folder == MainStore {
		return crio.Slots()
	}
	return append([]string{s.Folder}, crio.Slots()...)
}

// directories are the directories that must exist when CRI-O starts. Ignition cannot make one below
// /usr, which is read-only.
func (s Store) directories() (all []string) {
	for _, store := range s.Additional() {
		if !strings.HasPrefix(store, "/usr/") {
			all = append(all, store)
		}
	}
	return all
}

// UnitName is the name of the mount unit of a slot: systemd.mount(5). No slot has a character that
// systemd escapes.
func UnitName(slot string) string {
	return strings.ReplaceAll(strings.Trim(slot, "/"), "/", "-") + ".mount"
}
