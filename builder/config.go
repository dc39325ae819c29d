package builder

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The modes of an ISO.
const (
	modeLive    = "live"
	modeInstall = "install"
)

// validateISO also looks at what depends on the mode.
func (s Spec) validateISO() error {
	store, i := s.Node.Store, s.ISO
	switch {
	case i.Mode != "" && i.Mode != modeLive && i.Mode != modeInstall:
		return fmt.Errorf("spec.iso.mode is %q; it is live or install", i.Mode)
	case i.Mode != modeInstall && i.InstallDevice != "":
		return errors.New("spec.iso.installDevice is for spec.iso.mode install")
	case i.Mode != modeInstall && len(i.InstalledKernelArguments.Append)+len(i.InstalledKernelArguments.Delete) > 0:
		return errors.New("spec.iso.installedKernelArguments are for spec.iso.mode install")
	case i.Base == "" && (i.Force || !reflect.DeepEqual(i.KernelArguments, KernelArguments{})):
		return errors.New("spec.iso changes a live ISO, and there is none: give spec.iso.base")
	case i.Mode != modeInstall:
		return nil
	case i.Base == "":
		return errors.New("spec.iso.mode install needs a live ISO: spec.iso.base")
	case i.InstallDevice == "":
		return errors.New("spec.iso.mode install needs a disk: spec.iso.installDevice")
	case store != NodeStore{} && store != NodeStore{PartitionLabel: ignition.InstalledLabel}:
		return fmt.Errorf("spec.node.store: in spec.iso.mode install the store is in the partition %s; leave it out", ignition.InstalledLabel)
	}
	if err := (ignition.Installer{Disk: i.InstallDevice}).Validate(); err != nil {
		return fmt.Errorf("spec.iso.installDevice: %w", err)
	}
	for _, arg := range append(i.InstalledKernelArguments.Append, i.InstalledKernelArguments.Delete...) {
		if err := iso.CheckKarg(arg); err != nil {
			return fmt.Errorf("spec.iso.installedKernelArguments: %w", err)
		}
	}
	return nil
}

// config is the first-boot configuration of the spec, without its Butane.
func (s Spec) config(sets []pinset.Set, registries []byte) ignition.Config {
	c := ignition.Config{
		Sets: sets, Registries: registries, InternalRepair: s.Node.InternalRepair, SSHKeys: s.Ignition.SSHAuthorizedKeys,
		KeepPrevious: crio.DefaultKeepPrevious, AutoAttach: s.Node.AutoAttach,
		Store: ignition.Store{
			Path: s.Node.Store.Path, PartitionLabel: s.Node.Store.PartitionLabel, VolumeLabel: s.Node.Store.VolumeLabel,
			SELinuxContext: ignition.DefaultSELinuxContext,
		},
	}
	if s.Store.Format.isFolder() {
		c.Store.Path, c.Store.Folder = "", cmp.Or(s.Node.Store.Path, ignition.DefaultStoreFolder)
	}
	if s.ISO.Mode == modeInstall {
		c.Store.PartitionLabel = ignition.InstalledLabel
	}
	if s.Node.SELinuxContext != nil {
		c.Store.SELinuxContext = *s.Node.SELinuxContext
	}
	if s.Node.KeepPrevious != nil {
		c.KeepPrevious = *s.Node.KeepPrevious
	}
	return c
}

// configFiles are the node's configuration, and that of the live system if it is
// not the same.
type configFiles struct {
	butane, ignition         []byte
	liveButane, liveIgnition []byte
	// carried are files that the store has for the node.
	carried []ignition.File
	// secret says that there is a pull secret in them, of which the notes tell.
	secret bool
	notes  []string
}

// perm keeps secrets from others.
func (c configFiles) perm() os.FileMode {
	if c.secret {
		return 0o600
	}
	return 0o644
}

// texts are the files of the appliance's folder.
func (c configFiles) texts() map[string]text {
	files := map[string]text{ButaneFile: {c.butane, c.perm()}, IgnitionFile: {c.ignition, c.perm()}}
	if c.liveIgnition != nil {
		files[LiveButaneFile], files[LiveIgnitionFile] = text{c.liveButane, c.perm()}, text{c.liveIgnition, c.perm()}
	}
	return files
}

// embedded is what goes into the Ignition area of the ISO.
func (c configFiles) embedded() []byte {
	if c.liveIgnition != nil {
		return c.liveIgnition
	}
	return c.ignition
}

func (c configFiles) warnings() (all []string) {
	all = append(all, c.notes...)
	if len(c.carried) == 0 {
		return all
	}
	var names []string
	for _, f := range c.carried {
		names = append(names, f.Path)
	}
	return append(all, "the Ignition area of the ISO is too small for all files; the node gets these from its store, before CRI-O starts: "+strings.Join(names, ", "))
}

// configure renders the first-boot configuration.
func configure(a Appliance, sets []pinset.Set, registries []byte) (configFiles, error) {
	c := a.Spec.config(sets, registries)
	for _, name := range a.Spec.Ignition.Butane {
		content, err := os.ReadFile(name)
		if err != nil {
			return configFiles{}, fmt.Errorf("%w: %w", ignition.ErrButane, err)
		}
		c.Snippets = append(c.Snippets, ignition.Snippet{Name: name, Content: content, Dir: filepath.Dir(name)})
	}
	notes, err := a.Spec.Node.readPullSecret(&c)
	if err != nil {
		return configFiles{}, err
	}
	if c.AutoAttach && !c.HasKeys() {
		notes = append(notes, "spec.node.autoAttach: whoever can plug in a medium says what the nodes run; with keys in "+ignition.KeysDir+", by a Butane file, they want signatures")
	}
	files, err := a.Spec.fit(c)
	files.secret, files.notes = c.PullSecret != nil, notes
	return files, err
}

// readPullSecret also says what is wrong with it, and where it will be.
func (n NodeSpec) readPullSecret(c *ignition.Config) (notes []string, err error) {
	if n.PullSecret == "" {
		return nil, nil
	}
	credentials, err := storage.ReadCredentials(n.PullSecret)
	if err != nil {
		return nil, fmt.Errorf("spec.node.pullSecret: %w", err)
	}
	if fi, err := os.Stat(n.PullSecret); err != nil || !fi.Mode().IsRegular() { // it is read twice
		return nil, errors.Join(fmt.Errorf("spec.node.pullSecret: %w: %s is no file that stays", storage.ErrAccess, n.PullSecret), err, credentials.Close())
	}
	c.PullSecret = credentials.Content
	defer credentials.Close()
	return append(credentials.Warnings, "the Ignition configs and the ISO have the pull secret in them: whoever can read them can read it"), nil
}

// fit renders the configuration. If the ISO has no room for it, the store carries as
// many of its files as must be, the largest first.
func (s Spec) fit(c ignition.Config) (configFiles, error) {
	files, err := s.render(c)
	if !errors.Is(err, iso.ErrTooLarge) {
		return files, err
	}
	carriable, err := c.Carriable()
	if err != nil {
		return configFiles{}, err
	}
	c.Carried = carriable
	if files, err = s.render(c); errors.Is(err, iso.ErrTooLarge) {
		return configFiles{}, fmt.Errorf("%w: with %d files left to the store, %s", err, len(carriable), c.Largest())
	}
	sort.Search(len(carriable), func(n int) bool {
		c.Carried = carriable[:n]
		fewer, tooLarge := s.render(c)
		if tooLarge == nil {
			files = fewer // the last that fits carries the least
		}
		return tooLarge == nil
	})
	return files, err
}

// render gives the files, and finds out whether the base can take them, before
// anything is fetched.
func (s Spec) render(c ignition.Config) (files configFiles, err error) {
	files.carried = c.Carried
	if files.butane, err = ignition.Render(c); err != nil {
		return configFiles{}, err
	}
	if files.ignition, err = ignition.Translate(files.butane); err != nil {
		return configFiles{}, err
	}
	if s.ISO.Base == "" {
		return files, nil
	}
	if s.ISO.Mode == modeInstall {
		if files.liveButane, files.liveIgnition, err = s.installer(c, files.ignition); err != nil {
			return configFiles{}, err
		}
	}
	return files, iso.Check(s.ISO.Base, s.edit(files))
}

// installer gives the configuration of a live system that installs the node's.
func (s Spec) installer(c ignition.Config, installed []byte) (butane, config []byte, err error) {
	network, err := iso.CheckInstaller(s.ISO.Base)
	if err != nil {
		return nil, nil, err
	}
	butane, err = ignition.Installer{
		Disk: s.ISO.InstallDevice, Config: installed, CopyNetwork: network,
		AppendKargs: s.ISO.InstalledKernelArguments.Append, DeleteKargs: s.ISO.InstalledKernelArguments.Delete,
		SELinuxContext: c.Store.SELinuxContext, SSHKeys: c.SSHKeys,
	}.Render()
	if err != nil {
		return nil, nil, err
	}
	config, err = ignition.Translate(butane)
	return butane, config, err
}
