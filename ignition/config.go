package ignition

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/crypto/ssh"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// What can be wrong with a piece of Butane.
var (
	ErrButane   = errors.New("not valid Butane")
	ErrConflict = errors.New("replaces what pinbox writes")
)

// MainStore is the graph root of CRI-O's main store: containers-storage.conf(5).
const MainStore = "/var/lib/containers/storage"

// DefaultSELinuxContext is the label of layers that containers share read-only:
// the policy's for overlay under /var/lib/containers/storage.
const DefaultSELinuxContext = "system_u:object_r:container_ro_file_t:s0"

// RegistriesPath is the drop-in of registries.conf. It overrides registries.conf and earlier
// drop-ins: containers-registries.conf.d(5).
const RegistriesPath = "/etc/containers/registries.conf.d/50-pinbox-mirrors.conf"

// UdevRulesPath sorts after 60-persistent-storage.rules, which finds file systems.
const UdevRulesPath = "/etc/udev/rules.d/70-pinbox.rules"

// Config is the input of the configuration of a node.
type Config struct {
	// Release of the appliance.
	Release pinset.ReleaseID
	// Sets that the node pins.
	Sets []pinset.Set
	// Store that the node mounts.
	Store Store
	// Registries is a drop-in of registries.conf; nil for none.
	Registries []byte
	// PullSecret is a file of credentials for the node; nil for none. It is never in the
	// store.
	PullSecret []byte
	// InternalRepair leaves CRI-O's repair on.
	InternalRepair bool
	// Kubelet is what the node does about records of the kubelet that keep pods from images of stores.
	Kubelet layout.Kubelet
	// KeepPrevious is how many previous releases stay on the node for a rollback.
	KeepPrevious int
	// AutoAttach attaches a medium with a later store as soon as it is plugged in.
	AutoAttach bool
	// SSHKeys of the user core.
	SSHKeys []string
	// Snippets of Butane to merge, in this order; later ones win.
	Snippets []Snippet
	// StoreFiles are files that the node copies from its store, since the ISO has no space for
	// them in the configuration: some of StoreFileCandidates.
	StoreFiles []File
}

// Store describes where a node finds its store, and how it mounts it.
type Store struct {
	// Path of a file; "" means layout.LiveStorePath.
	Path string
	// PartitionLabel of a GPT partition that holds the store, instead of a file.
	PartitionLabel string
	// VolumeLabel of a medium with the store alone, instead of a file.
	VolumeLabel string
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
	// Program is the SHA-256 of the pinbox-node in the store.
	Program digest.Digest
}

// Snippet is a piece of Butane.
type Snippet struct {
	// Name is the file that it was read from, for errors.
	Name    string
	Content []byte
	// Dir is the folder of the local files that it may embed; "" for none.
	Dir string
}

// What a unit may contain without quoting.
var (
	nodePath       = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)
	volumeLabel    = regexp.MustCompile(`^[A-Z0-9_]{1,16}$`)
	partitionLabel = regexp.MustCompile(`^[A-Za-z0-9._-]{1,36}$`)
	selinuxContext = regexp.MustCompile(`^[a-z0-9_]+:[a-z0-9_]+:[a-z0-9_]+(:[a-z0-9:,.-]+)?$`)
)

// Validate returns an error if a node could not use the configuration. It does not check the sets.
func (c Config) Validate() error {
	s := c.Store
	switch {
	case s.Path != "" && s.PartitionLabel != "", s.Path+s.PartitionLabel != "" && s.VolumeLabel != "":
		return errors.New("the node's store has more than one of path, partitionLabel and volumeLabel; give one")
	case s.Folder != "" && (!nodePath.MatchString(s.Folder) || path.Clean(s.Folder) != s.Folder):
		return fmt.Errorf("the node's store has the folder %q; it starts with / and has letters, digits and ._-/ only",
			s.Folder)
	case s.Folder == layout.SlotsDir, strings.HasPrefix(s.Folder, layout.SlotsDir+"/"):
		return fmt.Errorf("the node's store has the folder %q, where other stores are mounted; use %s", s.Folder,
			layout.StoreFolder)
	case s.VolumeLabel != "" && !volumeLabel.MatchString(s.VolumeLabel):
		return fmt.Errorf("the node's store has the volume label %q; it has 1 to 16 of A to Z, digits and _", s.VolumeLabel)
	case s.Path != "" && (!nodePath.MatchString(s.Path) || path.Clean(s.Path) != s.Path):
		return fmt.Errorf("the node's store has the path %q; it starts with / and has letters, digits and ._-/ only", s.Path)
	case strings.HasPrefix(s.Path, layout.SlotsDir+"/"):
		return fmt.Errorf("the node's store has the path %q, which its own mount would hide", s.Path)
	case s.PartitionLabel != "" && !partitionLabel.MatchString(s.PartitionLabel):
		return fmt.Errorf("the node's store has the partition label %q; it has 1 to 36 letters, digits and ._- only",
			s.PartitionLabel)
	case s.SELinuxContext != "" && !selinuxContext.MatchString(s.SELinuxContext):
		return fmt.Errorf("%q is not an SELinux context, such as %s", s.SELinuxContext, DefaultSELinuxContext)
	}
	for i, key := range c.SSHKeys {
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil {
			return fmt.Errorf("SSH key %d, %q, is not a line of authorized_keys", i+1, key)
		}
	}
	return c.node().Validate()
}

// node is the configuration of pinbox-node.
func (c Config) node() layout.NodeConfig {
	own := c.Store.Digest
	if c.Store.Folder != "" { // it is not mounted
		own = ""
	}
	return layout.NodeConfig{
		ReleaseID: c.Release, Store: own, KeepPrevious: c.KeepPrevious, SELinuxContext: c.Store.SELinuxContext,
		Verity: c.Store.Verity, Kubelet: c.Kubelet,
	}
}

// verified returns the store with its policy: a node that has keys, and so trusts no store that nobody signed,
// trusts its own one by the root in this configuration.
func (c Config) verified() Store {
	s := c.Store
	if c.HasKeys() && s.Verity != layout.VerityOff {
		s.Verity = layout.VerityRequire
	}
	return s
}

// HasKeys reports whether a snippet names the folder of keys.
func (c Config) HasKeys() bool {
	return slices.ContainsFunc(c.Snippets, func(s Snippet) bool {
		return bytes.Contains(s.Content, []byte(layout.KeysDir))
	})
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
	case s.Path != "":
		return s.Path
	}
	return layout.LiveStorePath
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

// additional are the additional image stores of CRI-O.
func (s Store) additional() []string {
	if s.Folder == "" || s.Folder == MainStore {
		return crio.Slots()
	}
	return append([]string{s.Folder}, crio.Slots()...)
}

// kubeletRecords is the folder of the kubelet's records of pulls, from which a node may remove some:
// pkg/kubelet/images/pullmanager/fs_pullrecords.go in Kubernetes. The units may write to it if it
// exists when they start; the kubelet makes it later otherwise.
const kubeletRecords = "/var/lib/kubelet/image_manager"

// directories are the directories that must exist when CRI-O and the units of pinbox start.
func (c Config) directories() []directory {
	all := c.Store.directories()
	if c.Kubelet == layout.KubeletMend {
		all = append(all, directory{Path: kubeletRecords, Mode: 0o700})
	}
	return all
}

// directories are the directories that must exist when CRI-O starts. Ignition cannot make one below
// /usr, which is read-only.
func (s Store) directories() (all []directory) {
	for _, store := range s.additional() {
		if !strings.HasPrefix(store, "/usr/") {
			all = append(all, directory{Path: store, Mode: 0o755})
		}
	}
	return all
}

// unitName is the name of the mount unit of a slot: systemd.mount(5). No slot has a character that
// systemd escapes.
func unitName(slot string) string {
	return strings.ReplaceAll(strings.Trim(slot, "/"), "/", "-") + ".mount"
}

// files are all files of the configuration that are not made from templates.
func (c Config) files() []file {
	files := []file{
		text(crio.PinnedImagesPath, crio.RenderPinned(pinset.Union(c.Sets...))),
		text(crio.StoresPath, crio.RenderStores(c.Store.additional(), c.InternalRepair)),
		text(layout.NodeConfigPath, c.node().Render()),
	}
	if c.Registries != nil {
		files = append(files, text(RegistriesPath, c.Registries))
	}
	if c.PullSecret != nil {
		secret := text(crio.PullSecretPath, c.PullSecret)
		secret.Mode = 0o600
		files = append(files, secret, text(crio.CredentialsPath, crio.RenderCredentials()))
	}
	return append(files, c.setFiles()...)
}

func (c Config) setFiles() []file {
	var files []file
	for _, s := range c.Sets {
		files = append(files, text(path.Join(layout.SetsDir, pinset.FileName(s.Name)), s.Render()))
	}
	return files
}
