package ignition

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	igntypes "github.com/coreos/ignition/v2/config/v3_7_experimental/types"
	"github.com/opencontainers/go-digest"
)

// maxMerges is how deep configurations may be nested. Ignition has no limit; coreos-installer nests one level.
const maxMerges = 5

// tree is what a configuration makes of a system, with the configurations in it. It is read in the order in which
// Ignition merges them, so what comes later counts.
type tree struct {
	// says is what is said of each path, unit, user and device, without the content of files: it may be secret.
	says map[string]string
	// names are the names of the paths, of the units and of the drop-ins.
	names map[string]bool
	// files are the contents of files by their paths, where they are in the configuration.
	files map[string][]byte
	// ends are the paths of files and links: nothing can be below them.
	ends map[string]bool
	// configs are the configurations that are fetched, resources other things by who needs them.
	configs   []string
	resources map[string]string

	disks       []igntypes.Disk
	filesystems []igntypes.Filesystem
	luks        []igntypes.Luks
	raids       []igntypes.Raid
	kargs       []string
}

func newTree() tree {
	return tree{
		says: map[string]string{}, names: map[string]bool{}, files: map[string][]byte{}, ends: map[string]bool{},
		resources: map[string]string{},
	}
}

// readTree reads a configuration and those in it.
func readTree(config []byte) (tree, error) {
	t := newTree()
	return t, t.read(config, maxMerges)
}

// read adds a configuration, and those in it that it merges, which override it.
func (t *tree) read(config []byte, depth int) error {
	c, err := parse(config)
	if err != nil {
		return err
	}
	if source := c.Ignition.Config.Replace.Source; source != nil {
		return t.readInner(c.Ignition.Config.Replace, depth)
	}
	if err := t.storage(c.Storage); err != nil {
		return err
	}
	for _, ca := range c.Ignition.Security.TLS.CertificateAuthorities {
		if ca.Source != nil {
			t.fetches("ignition.security: "+*ca.Source, ca)
		}
	}
	for _, u := range c.Systemd.Units {
		t.unit(u)
	}
	for _, u := range c.Passwd.Users {
		if u.PasswordHash != nil {
			t.says["password of user "+u.Name] = "the hash " + sum([]byte(*u.PasswordHash))
		}
	}
	for _, arg := range c.KernelArguments.ShouldExist {
		t.kargs = append(t.kargs, string(arg))
	}
	for _, arg := range c.KernelArguments.ShouldNotExist {
		t.kargs = append(t.kargs, string(arg))
	}
	for _, m := range c.Ignition.Config.Merge {
		if err := t.readInner(m, depth); err != nil {
			return err
		}
	}
	return nil
}

// readInner reads a configuration in another one; one that is fetched is only noted.
func (t *tree) readInner(r igntypes.Resource, depth int) error {
	switch {
	case r.Source == nil:
		return nil
	case !strings.HasPrefix(*r.Source, "data:"):
		t.configs = append(t.configs, *r.Source)
		return nil
	case depth == 0:
		return fmt.Errorf("more than %d configs within each other", maxMerges)
	}
	inner, err := decode(r)
	if err == nil {
		err = t.read(inner, depth-1)
	}
	if err != nil {
		return fmt.Errorf("config in it: %w", err)
	}
	return nil
}

func (t *tree) storage(s igntypes.Storage) error {
	for _, f := range s.Files {
		said, err := t.file(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		t.place(f.Path, said, true)
	}
	for _, d := range s.Directories {
		t.place(d.Path, "a folder "+describeNode(d.Node, d.Mode, 0o755), false)
	}
	for _, l := range s.Links {
		t.place(l.Path, "a link "+asJSON(l), true)
	}
	for _, d := range s.Disks {
		t.says["partitions of "+d.Device] = asJSON(d)
	}
	for _, f := range s.Filesystems {
		t.says["file system of "+f.Device] = asJSON(f)
	}
	for _, l := range s.Luks {
		t.says["LUKS volume "+l.Name] = asJSON(l.Device)
		t.fetches("storage.luks: "+l.Name, l.KeyFile)
	}
	t.disks, t.filesystems = append(t.disks, s.Disks...), append(t.filesystems, s.Filesystems...)
	t.luks, t.raids = append(t.luks, s.Luks...), append(t.raids, s.Raid...)
	return nil
}

// place notes what stands at a path. systemd does not care who writes a unit: as a file, it is that unit, too.
func (t *tree) place(name, said string, end bool) {
	name = canonical(name)
	t.says[name], t.names[name] = said, true
	delete(t.ends, name)
	if end {
		t.ends[name] = true
	}
	below, isUnit := strings.CutPrefix(name, unitsDir)
	if !isUnit {
		return
	}
	t.names[path.Base(name)] = true
	unit, in, isDropin := strings.Cut(below, ".d/")
	switch {
	case isDropin:
		t.says["drop-in "+in+" of unit "+unit] = said
	case end:
		t.says["unit "+unit] = said
	}
}

// unitsDir is where Ignition writes units.
const unitsDir = "/etc/systemd/system/"

// canonical is the usual path of a file: every CoreOS has links to these folders from there (rpm-ostree, "File system
// layout").
func canonical(name string) string {
	name = path.Clean("/" + name)
	for _, link := range [][2]string{
		{"/usr/local", "/var/usrlocal"}, {"/opt", "/var/opt"}, {"/root", "/var/roothome"}, {"/home", "/var/home"},
		{"/srv", "/var/srv"}, {"/mnt", "/var/mnt"}, {"/run/media", "/media"}, {"/run/lock", "/var/lock"}, {"/run",
			"/var/run"},
	} {
		if rest, below := strings.CutPrefix(name, link[1]+"/"); below {
			return link[0] + "/" + rest
		}
	}
	return name
}

// file notes the content of a file, and describes it.
func (t *tree) file(f igntypes.File) (string, error) {
	said, whole := "a file "+describeNode(f.Node, f.Mode, 0o644), []byte(nil)
	name := canonical(f.Path)
	delete(t.resources, name)
	for _, r := range append([]igntypes.Resource{f.Contents}, f.Append...) {
		switch {
		case r.Source == nil:
		case !strings.HasPrefix(*r.Source, "data:"):
			said += ", " + *r.Source
			t.fetches(name, r)
		default:
			content, err := decode(r)
			if err != nil {
				return "", err
			}
			said, whole = said+", "+sum(content), append(whole, content...)
		}
	}
	if len(f.Append) > 0 {
		said += ", appended"
	}
	t.files[name] = whole
	return said, nil
}

func (t *tree) fetches(who string, r igntypes.Resource) {
	if r.Source != nil && *r.Source != "" && !strings.HasPrefix(*r.Source, "data:") {
		t.resources[who] = *r.Source
	}
}

func (t *tree) unit(u igntypes.Unit) {
	t.names[u.Name] = true
	t.put("unit "+u.Name, unitsDir+u.Name, u.Contents)
	if u.Enabled != nil {
		t.says["enabling of unit "+u.Name] = fmt.Sprint(*u.Enabled)
	}
	if u.Mask != nil {
		t.says["masking of unit "+u.Name] = fmt.Sprint(*u.Mask)
	}
	for _, d := range u.Dropins {
		t.names[d.Name] = true
		t.put("drop-in "+d.Name+" of unit "+u.Name, unitsDir+u.Name+".d/"+d.Name, d.Contents)
	}
}

func (t *tree) put(what, name string, contents *string) {
	if contents != nil {
		t.says[what], t.ends[name] = sum([]byte(*contents)), true
	}
}

// conflict is something of which two configurations say different things.
type conflict struct{ what, theirs, ours string }

// conflicts compares a configuration of others with ours, of which reserved are names that nobody else may have, in
// the order of their names. Links and files of one where the other has a folder count, too: Ignition fails at them.
func (own tree) conflicts(there tree, reserved []string) (all []conflict) {
	for _, what := range slices.Sorted(maps.Keys(own.says)) {
		if said, both := there.says[what]; both && said != own.says[what] {
			all = append(all, conflict{what, said, own.says[what]})
		}
	}
	for _, what := range slices.Sorted(maps.Keys(there.says)) {
		unit, isMask := strings.CutPrefix(what, "masking of unit ")
		if isMask && there.says[what] == "true" && own.names[unit] && own.says[what] == "" {
			all = append(all, conflict{what, "it", "the unit"})
		}
	}
	paths := map[string]bool{}
	for _, name := range reserved {
		if strings.HasPrefix(name, "/") {
			name = canonical(name)
			paths[name] = true
		}
		if there.names[name] && !own.names[name] {
			all = append(all, conflict{name, "one", "its own"})
		}
	}
	for name := range own.names {
		if strings.HasPrefix(name, "/") {
			paths[name] = true
		}
	}
	for name := range own.ends {
		paths[name] = true
	}
	above := func(ends map[string]bool, names map[string]bool) (found []conflict) {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			for dir := path.Dir(name); len(dir) > 1; dir = path.Dir(dir) {
				if ends[dir] {
					found = append(found, conflict{dir, dir, name})
				}
			}
		}
		return found
	}
	for _, c := range above(there.ends, paths) {
		all = append(all, conflict{c.what, there.kind(c.theirs), c.ours + " below it"})
	}
	for _, c := range above(own.ends, there.names) {
		all = append(all, conflict{c.what, c.ours + " below it", own.kind(c.theirs)})
	}
	return slices.CompactFunc(all, func(a, b conflict) bool { return a.what == b.what })
}

// kind describes what stands at a path, without its details.
func (t tree) kind(name string) string {
	if strings.HasPrefix(t.says[name], "a link") {
		return "a link"
	}
	return "a file"
}

// describeNode describes the owner and the mode of a file or folder.
func describeNode(n igntypes.Node, mode *int, otherwise int) string {
	if mode == nil {
		mode = &otherwise
	}
	return fmt.Sprintf("%04o %s:%s", *mode, owner(n.User.Name, n.User.ID), owner(n.Group.Name, n.Group.ID))
}

func sum(content []byte) string {
	return fmt.Sprintf("of %d bytes with SHA-256 %s", len(content), digest.FromBytes(content).Encoded())
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // of types that Ignition reads from JSON
	}
	return string(text)
}
