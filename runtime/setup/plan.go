package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrForeign means that a file is there which setup has not written.
var ErrForeign = fault.New(fault.Input, "is there, and setup has not written it",
	"move it away, if it is not needed; a node that Ignition has made needs no setup")

// Change is what happens to a file, a link or a directory of the machine.
type Change struct {
	Path string `json:"path"`
	// Action is what happens to it.
	Action Action `json:"action"`
}

// Action is what happens to a file.
type Action string

// Actions. A file is kept if somebody has changed it since setup wrote it.
const (
	Create  Action = "create"
	Replace Action = "replace"
	Remove  Action = "remove"
	Keep    Action = "keep"
)

// plan is what is to be done to a machine.
type plan struct {
	host  host
	files []provision.File // to write
	// manifest is what setup will have written, and remove what it wrote earlier and nobody needs now.
	manifest Manifest
	remove   []string
	changes  []Change
}

// newPlan compares what the machine must hold with what it has.
func newPlan(h host, p provision.Parts, old Manifest) (plan, error) {
	plan := plan{host: h, manifest: Manifest{Directories: old.Directories, Due: old.Due}}
	var errs []error
	for _, f := range p.Files {
		errs = append(errs, plan.addFile(f, old))
	}
	for _, l := range links(p.Units) {
		errs = append(errs, plan.addLink(l, old))
	}
	for _, d := range p.Directories {
		errs = append(errs, plan.addDirectory(d.Path))
	}
	if err := errors.Join(errs...); err != nil {
		return plan, err
	}
	return plan, plan.addRemovals(old)
}

// addFile decides what happens to a file.
func (p *plan) addFile(f provision.File, old Manifest) error {
	now, mode, err := p.host.sum(f.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	wanted, earlier := digest.FromBytes(f.Content), old.file(f.Path)
	e := Entry{Path: f.Path, Digest: wanted}
	switch {
	case now == "":
		p.files, p.changes = append(p.files, f), append(p.changes, Change{f.Path, Create})
	case now == wanted && earlier == nil: // somebody else has written just that
		return nil
	case now == wanted && mode == fs.FileMode(f.Mode):
	case earlier.has(now):
		e.Was = now
		p.files, p.changes = append(p.files, f), append(p.changes, Change{f.Path, Replace})
	case earlier == nil:
		return fmt.Errorf("%s %w", f.Path, ErrForeign)
	default:
		e = *earlier
		p.changes = append(p.changes, Change{f.Path, Keep})
	}
	p.manifest.Files = append(p.manifest.Files, e)
	return p.addDirectory(path.Dir(f.Path))
}

// sum returns the digest and the mode of a file; "" if there is none.
func (h host) sum(name string) (digest.Digest, fs.FileMode, error) {
	fi, err := h.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	if !fi.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%w: it is no regular file", ErrForeign)
	}
	f, err := h.openFile(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum, err := digest.FromReader(f)
	return sum, fi.Mode().Perm(), err
}

// addLink decides what happens to a link.
func (p *plan) addLink(l Link, old Manifest) error {
	target, err := p.host.target(l.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.changes = append(p.changes, Change{l.Path, Create})
	case err != nil || target != l.Target:
		return fmt.Errorf("%s %w", l.Path, ErrForeign)
	case !slices.Contains(old.Links, l): // somebody has enabled the unit
		return nil
	}
	p.manifest.Links = append(p.manifest.Links, l)
	return p.addDirectory(path.Dir(l.Path))
}

// addDirectory adds the directories that have to be made for one. That of the manifest is made before the manifest
// is written.
func (p *plan) addDirectory(dir string) error {
	if dir == path.Dir(ManifestPath) {
		return nil
	}
	folder, err := p.host.folder(dir)
	switch {
	case err == nil:
		return folder.Close()
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s %w: it is no directory", dir, ErrForeign)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case slices.Contains(p.manifest.Directories, dir):
		return nil
	}
	if err := p.addDirectory(path.Dir(dir)); err != nil {
		return err
	}
	p.manifest.Directories = append(p.manifest.Directories, dir)
	return nil
}

// addRemovals adds what setup wrote earlier with other options.
func (p *plan) addRemovals(old Manifest) error {
	for _, e := range old.Files {
		if p.manifest.file(e.Path) != nil {
			continue
		}
		removed, err := p.host.removable(e)
		if err != nil {
			return err
		}
		if removed.Action != "" {
			p.remove, p.changes = append(p.remove, e.Path), append(p.changes, removed)
		}
	}
	for _, l := range old.Links {
		if !slices.Contains(p.manifest.Links, l) && p.host.linked(l) {
			p.remove, p.changes = append(p.remove, l.Path), append(p.changes, Change{l.Path, Remove})
		}
	}
	return nil
}

// removable decides what happens to a file that is not needed any more: nothing if it is gone.
func (h host) removable(e Entry) (Change, error) {
	switch now, _, err := h.sum(e.Path); {
	case now == "" && err == nil:
		return Change{}, nil
	case e.has(now):
		return Change{e.Path, Remove}, nil
	}
	return Change{e.Path, Keep}, nil // what is no regular file is somebody else's
}

// linked reports whether a link is as setup has made it.
func (h host) linked(l Link) bool {
	target, err := h.target(l.Path)
	return err == nil && target == l.Target
}

// unitDir is the folder of an administrator's units: systemd.unit(5).
const unitDir = "/etc/systemd/system"

// unitFiles are the files of units, and of drop-ins of other units.
func unitFiles(units []provision.Unit) (all []provision.File) {
	add := func(path, content string) {
		all = append(all, provision.File{Path: path, Mode: 0o644, Content: []byte(content)})
	}
	for _, u := range units {
		if u.Content != "" {
			add(path.Join(unitDir, u.Name), u.Content)
		}
		for _, d := range u.Dropins {
			add(path.Join(unitDir, u.Name+".d", d.Name), d.Content)
		}
	}
	return all
}

// presetPath sorts before the presets of distributions: systemd.preset(5).
const presetPath = "/etc/systemd/system-preset/20-pinbox.preset"

// preset enables the units when an image boots for the first time: systemd applies presets then, and
// distributions disable whatever is not in theirs.
func preset(units []provision.Unit) provision.File {
	content := "# Written by pinbox.\n"
	for _, l := range links(units) {
		content += "enable " + path.Base(l.Path) + "\n"
	}
	return provision.File{Path: presetPath, Mode: 0o644, Content: []byte(content)}
}

// links are the links that `systemctl enable` would make: of the lines in [Install].
func links(units []provision.Unit) (all []Link) {
	for _, u := range units {
		if !u.Enabled {
			continue
		}
		_, install, _ := strings.Cut(u.Content, "\n[Install]\n")
		for line := range strings.Lines(install) {
			if target, ok := strings.CutPrefix(strings.TrimSpace(line), "WantedBy="); ok {
				all = append(all, Link{
					Path: path.Join(unitDir, target+".wants", u.Name), Target: path.Join(unitDir, u.Name),
				})
			}
		}
	}
	return all
}
