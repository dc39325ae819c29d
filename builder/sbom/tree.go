package sbom

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/layout"
)

// errElsewhere says that a layer is in a store that was not given.
var errElsewhere = errors.New("some layers are in the base of this delta, which --base names")

// layer is a layer in a store; files is nil if no store has it.
type layer struct {
	files files
	root  string
}

// layer finds a layer in the stores.
func (r *reader) layer(id string) layer {
	root := path.Join(layout.OverlayDir, id, "diff")
	for _, files := range r.stores {
		if _, err := files.Lstat(root); err == nil {
			return layer{files, root}
		}
	}
	return layer{root: root}
}

// tree is what a container of an image sees: its layers, the topmost first. Links are not followed.
type tree []layer

// place is what a layer has at a path.
type place struct {
	// info is nil if the layer has nothing there.
	info fs.FileInfo
	// hides is true if layers below are not seen at the path: the layer has something else there, which may
	// be a whiteout, or an opaque folder above it.
	hides bool
}

func (l layer) look(name string) (p place, err error) {
	if l.files == nil {
		return p, errElsewhere
	}
	at := l.root
	parts := strings.Split(name, "/")
	for i := -1; i < len(parts); i++ {
		if i >= 0 {
			at += "/" + parts[i]
		}
		fi, err := l.files.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		if i == len(parts)-1 {
			p.info = fi
		}
		if !fi.IsDir() {
			p.hides = true
			return p, nil
		}
		xattrs, err := l.files.Xattrs(at)
		if err != nil {
			return p, err
		}
		p.hides = p.hides || xattrs[opaque] == "y"
	}
	return p, nil
}

// find returns the layer that has a regular file; nil if there is none.
func (t tree) find(name string) (*layer, error) {
	for _, l := range t {
		p, err := l.look(name)
		if err != nil {
			return nil, err
		}
		if p.info != nil && p.info.Mode().IsRegular() {
			return &l, nil
		}
		if p.hides || p.info != nil { // a folder is no database
			return nil, nil
		}
	}
	return nil, nil
}

// list returns the paths of all names in a folder, sorted.
func (t tree) list(dir string) (names []string, err error) {
	for _, l := range t {
		p, err := l.look(dir)
		if err != nil {
			return nil, err
		}
		if p.info != nil && p.info.IsDir() {
			entries, err := l.files.ReadDir(l.root + "/" + dir)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				if !fs.ValidPath(e.Name()) { // no program makes such a name of a package
					continue
				}
				names = append(names, dir+"/"+e.Name())
			}
		}
		if p.hides {
			break
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// maxRelease is the limit for os-release in bytes: more than fifty times Fedora's.
const maxRelease = 64 << 10

// releaseFiles are the places of os-release(5). The file in /etc is mostly a link to the other one.
var releaseFiles = []string{"etc/os-release", "usr/lib/os-release"}

// distribution reads os-release(5).
func (t tree) distribution() (id, version string, err error) {
	for _, name := range releaseFiles {
		l, err := t.find(name)
		if err != nil {
			return "", "", err
		}
		if l == nil {
			continue
		}
		text, err := readFile(l.files, l.root+"/"+name, maxRelease)
		if errors.Is(err, errTooLong) {
			return "", "", nil
		}
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", name, err)
		}
		return releaseField(string(text), "ID"), releaseField(string(text), "VERSION_ID"), nil
	}
	return "", "", nil
}

// releaseField returns the value of a variable; "" if it has a form that the values here never have.
func releaseField(text, name string) string {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"=")
		if value = strings.Trim(value, `"'`); ok && len(value) < 100 && !strings.ContainsFunc(value, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789._-", r)
		}) {
			return value
		}
	}
	return ""
}
