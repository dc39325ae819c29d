package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrForeign means that a file is there which setup has not written.
var ErrForeign = fault.New(fault.Input, "is there, and setup has not written it",
	"move it away, if it is not needed: --undo keeps files that were changed; a node that Ignition has made needs no "+
		"setup")

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
	host host
	// files to write.
	files []provision.File
	// manifest is what setup will have written.
	manifest Manifest
	// result is what is told of it.
	result Result
}

// compare decides what happens to each file, link and directory that the machine must hold, and to what setup wrote
// earlier and nobody needs now.
func (p *plan) compare(wanted provision.Plain, old Manifest) error {
	p.manifest.Directories = old.Directories
	var errs []error
	for _, f := range wanted.Files {
		errs = append(errs, p.addFile(f, old))
	}
	for _, l := range wanted.Links {
		errs = append(errs, p.addLink(l, old))
	}
	for _, dir := range wanted.Directories {
		errs = append(errs, p.addDirectory(dir))
	}
	p.result.Changes = append(p.result.Changes, p.host.removals(old, p.manifest)...)
	return errors.Join(errs...)
}

// add notes a change.
func (p *plan) add(path string, action Action) {
	p.result.Changes = append(p.result.Changes, Change{path, action})
}

// addFile decides what happens to a file.
func (p *plan) addFile(f provision.File, old Manifest) error {
	now, mode, err := p.host.sum(f.Path)
	if err != nil {
		return err
	}
	earlier := old.file(f.Path)
	e := Entry{Path: f.Path, Digest: digest.FromBytes(f.Content)}
	switch {
	case now == "":
		p.files = append(p.files, f)
		p.add(f.Path, Create)
	case now == e.Digest && earlier == nil: // somebody else has written just that
		return nil
	case now == e.Digest && mode == fs.FileMode(f.Mode):
	case earlier.wrote(now):
		e.Was = now
		p.files = append(p.files, f)
		p.add(f.Path, Replace)
	case earlier == nil:
		return fmt.Errorf("%s %w", f.Path, ErrForeign)
	default:
		e = *earlier
		p.add(f.Path, Keep)
	}
	p.manifest.Files = append(p.manifest.Files, e)
	return p.addDirectory(path.Dir(f.Path))
}

// sum returns the digest and the mode of a file; "" if there is none.
func (h host) sum(name string) (digest.Digest, fs.FileMode, error) {
	fi, err := look(h, name, (*os.Root).Lstat)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	if !fi.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%s: %w: it is no regular file", name, ErrForeign)
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
func (p *plan) addLink(l provision.Link, old Manifest) error {
	target, err := look(p.host, l.Path, (*os.Root).Readlink)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.add(l.Path, Create)
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

// removals decides what happens to files and links of old that a later manifest lacks: nothing to those that are gone.
// A file is kept if it has another content than setup wrote, or is no regular file.
func (h host) removals(old, later Manifest) (changes []Change) {
	for _, e := range old.Files {
		now, _, err := h.sum(e.Path)
		switch {
		case later.file(e.Path) != nil, now == "" && err == nil:
		case e.wrote(now):
			changes = append(changes, Change{e.Path, Remove})
		default:
			changes = append(changes, Change{e.Path, Keep})
		}
	}
	for _, l := range old.Links {
		target, err := look(h, l.Path, (*os.Root).Readlink)
		if err == nil && target == l.Target && !slices.Contains(later.Links, l) {
			changes = append(changes, Change{l.Path, Remove})
		}
	}
	return changes
}

// remove removes what is to be removed.
func (h host) remove(changes []Change) error {
	return each(changes, func(c Change) error {
		if c.Action != Remove {
			return nil
		}
		return h.removeFile(c.Path)
	})
}

// each does something with all of them until it fails.
func each[T any](all []T, do func(T) error) error {
	for _, one := range all {
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}
