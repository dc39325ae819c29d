package firstboot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Files are the node's configuration, and that of the live system if it is
// not the same.
type Files struct {
	butane, ignition         []byte
	liveButane, liveIgnition []byte
	// Carried are files that the store has for the node.
	Carried []ignition.File
	// secret says that there is a pull secret in them, of which the notes tell.
	secret bool
	notes  []string
}

// perm keeps secrets from others.
func (c Files) perm() os.FileMode {
	if c.secret {
		return 0o600
	}
	return 0o644
}

// Texts are the files of the appliance's folder.
func (c Files) Texts() map[string]artifact.Text {
	text := func(content []byte) artifact.Text { return artifact.Text{Content: content, Perm: c.perm()} }
	files := map[string]artifact.Text{artifact.ButaneFile: text(c.butane), artifact.IgnitionFile: text(c.ignition)}
	if c.liveIgnition != nil {
		files[artifact.LiveButaneFile], files[artifact.LiveIgnitionFile] = text(c.liveButane), text(c.liveIgnition)
	}
	return files
}

// embedded is what goes into the Ignition area of the ISO.
func (c Files) embedded() []byte {
	if c.liveIgnition != nil {
		return c.liveIgnition
	}
	return c.ignition
}

// Warnings tell of what whoever builds should know.
func (c Files) Warnings() (all []string) {
	all = append(all, c.notes...)
	if len(c.Carried) == 0 {
		return all
	}
	var names []string
	for _, f := range c.Carried {
		names = append(names, f.Path)
	}
	return append(all, "the Ignition area of the ISO is too small for all files; the node gets these from its store, "+
		"before CRI-O starts: "+strings.Join(names, ", "))
}

// Configure renders the first-boot configuration.
func Configure(a spec.Appliance, sets []pinset.Set, registries []byte) (Files, error) {
	c := a.Spec.Config(sets, registries)
	for _, name := range a.Spec.Ignition.Butane {
		content, err := os.ReadFile(name)
		if err != nil {
			return Files{}, fmt.Errorf("%w: %w", ignition.ErrButane, err)
		}
		c.Snippets = append(c.Snippets, ignition.Snippet{Name: name, Content: content, Dir: filepath.Dir(name)})
	}
	notes, err := readPullSecret(a.Spec.Node.PullSecret, &c)
	if err != nil {
		return Files{}, err
	}
	if c.AutoAttach && !c.HasKeys() {
		notes = append(notes,
			"spec.node.autoAttach: whoever can plug in a medium says what the nodes run; with keys in "+layout.KeysDir+", by a Butane file, they want signatures")
	}
	files, err := fit(a.Spec, c)
	files.secret, files.notes = c.PullSecret != nil, notes
	return files, err
}

// readPullSecret also says what is wrong with it, and where it will be.
func readPullSecret(name string, c *ignition.Config) (notes []string, err error) {
	if name == "" {
		return nil, nil
	}
	credentials, err := storage.ReadCredentials(name)
	if err != nil {
		return nil, fmt.Errorf("spec.node.pullSecret: %w", err)
	}
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() { // it is read twice
		return nil, errors.Join(fmt.Errorf("spec.node.pullSecret: %w: %s is no file that stays", storage.ErrAccess, name),
			err, credentials.Close())
	}
	c.PullSecret = credentials.Content
	defer credentials.Close()
	return append(credentials.Warnings,
		"the Ignition configs and the ISO have the pull secret in them: whoever can read them can read it"), nil
}

// fit renders the configuration. If the ISO has no room for it, the store carries as
// many of its files as must be, the largest first.
func fit(s spec.Spec, c ignition.Config) (Files, error) {
	files, err := render(s, c)
	if !errors.Is(err, iso.ErrTooLarge) {
		return files, err
	}
	carriable, err := c.StoreFileCandidates()
	if err != nil {
		return Files{}, err
	}
	c.StoreFiles = carriable
	if files, err = render(s, c); errors.Is(err, iso.ErrTooLarge) {
		part, bytes := c.LargestPart()
		return Files{}, fmt.Errorf("%w: with %d files left to the store, the largest that must stay is %s with %d bytes",
			err, len(carriable), part, bytes)
	}
	sort.Search(len(carriable), func(n int) bool {
		c.StoreFiles = carriable[:n]
		fewer, tooLarge := render(s, c)
		if tooLarge == nil {
			files = fewer // the last that fits carries the least
		}
		return tooLarge == nil
	})
	return files, err
}

// render gives the files, and finds out whether the base can take them, before
// anything is fetched.
func render(s spec.Spec, c ignition.Config) (files Files, err error) {
	files.Carried = c.StoreFiles
	if files.butane, err = ignition.Render(c); err != nil {
		return Files{}, err
	}
	if files.ignition, err = ignition.Translate(files.butane); err != nil {
		return Files{}, err
	}
	if s.ISO.Base == "" {
		return files, nil
	}
	if s.ISO.Mode == spec.ModeInstall {
		if files.liveButane, files.liveIgnition, err = installer(s, c, files.ignition); err != nil {
			return Files{}, err
		}
	}
	return files, iso.Check(s.ISO.Base, files.edit(s))
}

// installer gives the configuration of a live system that installs the node's.
func installer(s spec.Spec, c ignition.Config, installed []byte) (butane, config []byte, err error) {
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

// edit is that of the base.
func (c Files) edit(s spec.Spec) iso.Edit {
	k := s.ISO.KernelArguments
	_, arch, _ := s.Platform.Split()
	return iso.Edit{
		Architecture: arch, Ignition: c.embedded(), Force: s.ISO.Force, Private: c.secret,
		Kargs: iso.KargsEdit{Append: k.Append, Delete: k.Delete, Replace: k.Replace},
	}
}

// LiveISO is what becomes of the base, if there is one.
func (c Files) LiveISO(s spec.Spec) artifact.LiveISO {
	return artifact.LiveISO{Base: s.ISO.Base, Edit: c.edit(s), NoStore: s.Node.Store.VolumeLabel != ""}
}
