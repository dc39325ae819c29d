package firstboot

import (
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// Files are the configs of the node and, if a live system installs it, of the live system.
type Files struct {
	butane, ignition         []byte
	liveButane, liveIgnition []byte
	merged                   []byte // with the config that the base ISO has; nil if it has none
	// StoreFiles are files of the node that do not fit into the ISO; they are in the store instead.
	StoreFiles []provision.File
	// manifests are objects for the cluster by their file names; nil if the nodes have no operator.
	manifests map[string][]byte
	// machineConfigs are the user's objects for the cluster, by where they are.
	machineConfigs map[string][]byte
	secret         bool     // a config has a pull secret, files of the user, or another config
	inputs         []string // notes of the inputs
	merging        []string // notes of the merge
	notes          []string // all
	spec           spec.Spec
	config         ignition.Config
	base           *iso.Base // nil without an ISO
}

// unknown stands for the hash tree of a store until that is written, and unknownDigest for its digest. They take
// more space in a config than any, compressed too, so that a config which fits into the ISO still fits then.
var (
	unknown       = verity.Tree{Root: digest.SHA512.FromString("root"), Blocks: 1 << 48}
	unknownDigest = digest.FromString("store")
)

// WithStore returns the configs for the store that was written.
func (c Files) WithStore(store artifact.Store) (Files, error) {
	c.config.Store.Tree = store.Tree
	c.config.Store.Digest = digest.Digest(store.Digest())
	c.config.Store.Size = store.Size
	files, err := c.render()
	if err != nil {
		return Files{}, err
	}
	return files, files.check()
}

// Private reports whether only their owner may read the configs, and what carries them: they have a pull
// secret, or Butane files, in which hashes of passwords and keys are usual.
func (c Files) Private() bool { return c.secret }

// HasKeys reports whether the nodes probably require signatures of stores.
func (c Files) HasKeys() bool { return c.config.HasKeys() }

func (c Files) perm() os.FileMode {
	if c.secret {
		return 0o600
	}
	return 0o644
}

// Texts returns the configs by their names in the appliance's folder.
func (c Files) Texts() map[string]artifact.Text {
	text := func(content []byte) artifact.Text { return artifact.Text{Content: content, Perm: c.perm()} }
	files := map[string]artifact.Text{artifact.ButaneFile: text(c.butane), artifact.IgnitionFile: text(c.ignition)}
	if c.liveIgnition != nil {
		files[artifact.LiveButaneFile], files[artifact.LiveIgnitionFile] = text(c.liveButane), text(c.liveIgnition)
	}
	if c.merged != nil {
		files[artifact.MergedIgnitionFile] = text(c.merged)
	}
	for name, content := range c.manifests {
		files[path.Join(artifact.ManifestsDir, name)] = artifact.Text{Content: content, Perm: 0o644}
	}
	return files
}

// embedded is the config for the Ignition area of the ISO.
func (c Files) embedded() []byte {
	switch {
	case c.merged != nil:
		return c.merged
	case c.liveIgnition != nil:
		return c.liveIgnition
	}
	return c.ignition
}

// Warnings returns warnings for the user.
func (c Files) Warnings() (all []string) {
	all = append(all, c.notes...)
	if len(c.StoreFiles) == 0 {
		return all
	}
	var names []string
	for _, f := range c.StoreFiles {
		names = append(names, f.Path)
	}
	return append(all, "the Ignition area of the ISO is too small for all files; the node gets these from its store, "+
		"before CRI-O starts: "+strings.Join(names, ", "))
}

// Configure reads the files that an appliance names, and renders the first-boot configuration of what its sources have.
// base is the ISO that spec.iso.base names; nil if it names none. program is the pinbox-node in the store.
func Configure(
	a spec.Appliance, base *iso.Base, material source.Content, registries []byte, program pinset.Program,
) (Files, error) {
	c := a.Spec.Config(material.Sets, registries)
	c.Release = a.Metadata.ID()
	c.Store.Program = program
	c.Store.Tree = unknown
	c.Store.Digest = unknownDigest
	c.Store.Size = unknown.Blocks
	for _, name := range a.Spec.Ignition.Butane {
		content, err := input.Read(name)
		if err != nil {
			return Files{}, fmt.Errorf("%w: %w", ignition.ErrButane, err)
		}
		c.Snippets = append(c.Snippets, ignition.Snippet{Name: name, Content: content, Dir: filepath.Dir(name)})
	}
	notes, err := readPullSecret(a.Spec.Node.PullSecret, &c)
	if err != nil {
		return Files{}, err
	}
	if a.Spec.ISO.Mode == spec.ModeAgent && (len(c.Snippets) > 0 || c.PullSecret != nil) {
		notes = append(notes,
			"in spec.iso.mode agent the cluster configures the nodes: spec.ignition.butane and spec.node.pullSecret are in "+
				"config.ign alone, which they do not read; give the cluster MachineConfigs and its pull secret")
	}
	if c.AutoAttach && !c.HasKeys() {
		notes = append(notes,
			"spec.node.autoAttach: whoever can plug in a medium decides which images the nodes run; put keys into "+
				layout.KeysDir+" with a Butane file, and the nodes require signatures")
	}
	if base != nil && base.Edited {
		notes = append(notes, base.Name+" is an ISO of pinbox: it is taken as it was before, without the store, the config "+
			"and the kernel arguments that it got")
	}
	if base != nil {
		disk, err := base.DiskNotes()
		if err != nil {
			return Files{}, err
		}
		notes = append(notes, disk...)
	}
	c, fetched, err := c.Translate()
	if err != nil {
		return Files{}, err
	}
	files := Files{
		spec: a.Spec, config: c, base: base, inputs: append(notes, fetched...), machineConfigs: material.MachineConfigs,
	}
	return files.WithSets(material.Sets)
}

// WithSets returns the configs for these sets, with which they may need more room in the ISO.
func (c Files) WithSets(sets []pinset.Set) (Files, error) {
	c.config.Sets = sets
	c.config.StoreFiles = nil
	all, err := c.render()
	if err != nil {
		return Files{}, err
	}
	reviewed, err := all.review()
	if err != nil {
		return Files{}, err
	}
	files, err := all.fit()
	files.notes = slices.Concat(c.inputs, reviewed, files.merging)
	return files, err
}

// review compares the configs with the systems that apply them.
func (c Files) review() (notes []string, err error) {
	s := c.spec
	node := ignition.System{
		Live: c.base != nil && !s.ISO.ToDisk(), Disk: s.ISO.InstallDevice, Partition: c.config.Store.PartitionLabel,
		Network: s.Node.Store.URL != "", Images: pinset.Union(c.config.Sets...),
	}
	if notes, err = ignition.Review(c.ignition, node); err != nil {
		return nil, err
	}
	var more []string
	if c.base != nil {
		live := node
		live.Live = true
		if s.ISO.ToDisk() {
			live.Images = nil // it runs no CRI-O
		}
		if s.ISO.Mode == spec.ModeAgent {
			live.Network = true // agents speak to each other
		}
		if more, err = c.reviewBase(live); err != nil {
			return nil, err
		}
	}
	if s.OpenShift != nil || s.ISO.Mode == spec.ModeAgent {
		node.Live, node.Partition = false, openshift.Installed(c.config).Store.PartitionLabel
		node.Operator = s.OpenShift == nil || s.OpenShift.Pins() == layout.PinsOperator
		cluster, err := c.reviewCluster(node)
		if err != nil {
			return nil, err
		}
		more = append(more, cluster...)
	}
	for _, note := range more {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes, nil
}

// reviewCluster compares the user's MachineConfigs, of the sources and of the ISO of an agent, with a node of the
// cluster.
func (c Files) reviewCluster(node ignition.System) (notes []string, err error) {
	theirs := map[string][]byte{}
	maps.Copy(theirs, c.machineConfigs)
	if c.merged != nil {
		extra, err := ignition.ExtraManifests(c.merged)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.base.Name, err)
		}
		for name, content := range extra {
			theirs[c.base.Name+": "+name] = content
		}
	}
	return ignition.ReviewCluster(theirs, c.manifests, c.config.Names(), node)
}

// reviewBase compares the configs that the base has with the system that boots from the ISO.
func (c Files) reviewBase(live ignition.System) (notes []string, err error) {
	if c.merged != nil {
		if notes, err = ignition.Review(c.merged, live); err != nil {
			return nil, fmt.Errorf("%s, merged: %w", c.base.Name, err)
		}
	}
	configs, err := c.base.SystemConfigs()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		result, more, err := c.mergeWith(configs[name])
		if err == nil {
			notes = append(notes, more...)
			more, err = ignition.Review(result, live)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.base.Name, name, err)
		}
		notes = append(notes, more...)
	}
	return notes, nil
}

// readPullSecret reads the pull secret into the config. It warns of problems, and of the files that have it.
func readPullSecret(name string, c *ignition.Config) (notes []string, err error) {
	if name == "" {
		return nil, nil
	}
	credentials, err := storage.ReadCredentials(name)
	if err != nil {
		return nil, fmt.Errorf("spec.node.pullSecret: %w", err)
	}
	c.PullSecret = credentials.Content
	defer credentials.Close()
	return append(credentials.Warnings,
		"the Ignition configs and the ISO contain the pull secret: whoever can read them can read it"), nil
}

// fit returns the configs that fit into the ISO, of these with all files. If they do not, files are left for the
// store, the largest first, and as few as possible.
func (c Files) fit() (Files, error) {
	tooLarge := c.check()
	if !errors.Is(tooLarge, iso.ErrTooLarge) {
		return c, tooLarge
	}
	candidates, err := c.config.StoreFileCandidates()
	if err != nil {
		return Files{}, err
	}
	stays := func(config ignition.Config, err error) error {
		part, bytes := config.LargestPart()
		return fmt.Errorf("%w: with %d files left for the store, the largest that must stay is %s with %d bytes",
			err, len(candidates), part, bytes)
	}
	if len(candidates) == 0 {
		return Files{}, stays(c.config, tooLarge)
	}
	// It takes long to render many files, so the search begins where the sizes say that it ends. low files are too
	// few, and high are enough.
	best, low, high := Files{}, 0, len(candidates)+1
	for n, step := estimate(candidates, iso.Overflow(tooLarge)), 1; high-low > 1; step *= 2 {
		c.config.StoreFiles = candidates[:n]
		files, err := c.render()
		if err == nil {
			err = files.check()
		}
		switch {
		case err == nil:
			best, high, n = files, n, max(n-step, (low+n)/2)
		case !errors.Is(err, iso.ErrTooLarge):
			return Files{}, err
		case n == len(candidates):
			return Files{}, stays(c.config, err)
		default:
			low, n = n, min(n+step, (n+high)/2)
		}
	}
	return best, nil
}

// estimate returns how many files have these bytes when they are compressed; at least one.
func estimate(files []provision.File, bytes int64) (n int) {
	for ; n < len(files) && bytes > 0; n++ {
		var packed counter
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(files[n].Content) // a counter has no errors
		_ = z.Close()
		bytes -= int64(packed)
	}
	return max(n, 1)
}

// counter counts what is written.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// check reports whether the configs fit into the base ISO, before anything is fetched.
func (c Files) check() error {
	if c.base == nil {
		return nil
	}
	return c.base.Check(c.edit())
}

// render returns the files with the configs rendered.
func (c Files) render() (_ Files, err error) {
	iso := c.spec.ISO
	c.StoreFiles = c.config.StoreFiles
	if c.butane, err = ignition.Render(c.config); err != nil {
		return Files{}, err
	}
	if c.ignition, err = ignition.Translate(c.butane); err != nil {
		return Files{}, err
	}
	if c.spec.OpenShift != nil {
		if c.manifests, err = openshift.Manifests(*c.spec.OpenShift, c.config); err != nil {
			return Files{}, err
		}
	}
	if c.base != nil && iso.ToDisk() {
		if c.liveButane, c.liveIgnition, err = c.installer(); err != nil {
			return Files{}, err
		}
	}
	if c.base != nil && iso.Existing == spec.ExistingMerge {
		if c.merged, c.merging, err = c.merge(); err != nil {
			return Files{}, err
		}
	}
	c.secret = c.config.PullSecret != nil || len(c.config.Snippets) > 0 || c.merged != nil
	return c, nil
}

// merge merges the config of the system that boots from the ISO with the one that the base has; nil if it has none.
func (c Files) merge() (merged []byte, notes []string, err error) {
	theirs, err := c.base.Ignition()
	if err != nil || theirs == nil {
		return nil, nil, err
	}
	if merged, notes, err = c.mergeWith(theirs); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.base.Name, err)
	}
	return merged, notes, nil
}

// mergeWith merges one with another config. Names of pinbox in that system are reserved.
func (c Files) mergeWith(theirs []byte) (merged []byte, notes []string, err error) {
	ours := c.ignition
	reserved := c.config.Names()
	if c.liveIgnition != nil {
		ours = c.liveIgnition
		reserved = nil
	}
	return ignition.Merge(theirs, ours, reserved)
}

// installer renders the configs of a live system that installs the node with its config.
func (c Files) installer() (butane, config []byte, err error) {
	iso := c.spec.ISO
	i := ignition.Installer{
		Disk: iso.InstallDevice, AppendKargs: iso.InstalledKernelArguments.Append,
		DeleteKargs: iso.InstalledKernelArguments.Delete, Store: c.config.Store, SSHKeys: c.config.SSHKeys,
	}
	if iso.Mode == spec.ModeInstall {
		i.Config = c.ignition
		if i.CopyNetwork, err = c.base.CheckInstaller(); err != nil {
			return nil, nil, err
		}
	}
	butane, err = i.Render()
	if err != nil {
		return nil, nil, err
	}
	config, err = ignition.Translate(butane)
	return butane, config, err
}

// edit returns the changes to the base ISO.
func (c Files) edit() iso.Edit {
	k := c.spec.ISO.KernelArguments
	_, arch, _ := c.spec.Platform.Split()
	edit := iso.Edit{
		Architecture: arch, Ignition: c.embedded(), Force: c.spec.ISO.Existing != "", Private: c.secret,
		Grow:   c.spec.ISO.Existing == spec.ExistingMerge, // their config cannot be made smaller
		Kargs:  iso.KargsEdit{Append: k.Append, Delete: k.Delete, Replace: k.Replace},
		System: iso.RunsFromMedium,
	}
	switch {
	case c.spec.ISO.Mode == spec.ModeInstall:
		edit.System = iso.InstallsFromMedium
	case c.spec.ISO.Mode == spec.ModeAgent:
		edit.System = iso.InstallsBesideOthers
	case c.config.Store.NodePath() != layout.LiveStorePath:
		edit.System = iso.StoreElsewhere
	}
	return edit
}

// LiveISO says how to make the live ISO.
func (c Files) LiveISO() artifact.LiveISO {
	store := c.spec.Node.Store
	return artifact.LiveISO{Base: c.base, Edit: c.edit(), NoStore: store.VolumeLabel+store.URL != ""}
}
