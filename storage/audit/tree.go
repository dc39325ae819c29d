package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/layout"
)

const (
	// maxFiles is the limit for the files and folders below layout.OwnFiles.
	maxFiles = 100_000
	// maxText is the limit for the files "link", "lower" and "lower-layers" of a layer in bytes: layout.MaxLayers times
	// an ID and a colon.
	maxText = layout.MaxLayers * 65
)

// The types of files in a store.
const (
	folder fs.FileMode = fs.ModeDir
	file   fs.FileMode = 0
	link   fs.FileMode = fs.ModeSymlink
	// opened is a folder whose inode is read when it is opened, and not when it is listed.
	opened fs.FileMode = fs.ModeDir | fs.ModeTemporary
)

// listing has the type of each entry of a folder, by its path.
type listing map[string]fs.FileMode

// checkTree checks that the store has exactly the files that its records and docs/format.md name.
// What is in the folders diff of layers is not looked at.
func (a *auditor) checkTree() error {
	for _, check := range []func() error{a.checkRoot, a.checkLayers, a.checkImages, a.checkOwn} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (a *auditor) checkRoot() error {
	return a.checkFolder(".", listing{
		layout.OverlayDir: folder, layout.LayersDir: folder, layout.ImagesDir: folder, layout.OwnDir: folder,
	}, listing{layout.ArtifactsDir: folder})
}

// checkLayers checks the files of the layers. The inodes of each kind are read in their order in an image: a store has
// more of them than a reader can hold.
func (a *auditor) checkLayers() error {
	overlay, links := listing{layout.LinksDir: folder}, listing{}
	records := listing{layout.LayersFile: file, layout.LayersLock: file}
	targets := map[string]string{}
	for _, id := range a.order {
		overlay[layout.OverlayDir+"/"+id] = opened
		links[linkFile(id)] = link
		records[layout.TarSplitFile(id)] = file
		targets[linkFile(id)] = "../" + id + "/diff"
	}
	for dir, want := range map[string]listing{
		layout.OverlayDir: overlay, layout.LinksDir: links, layout.LayersDir: records,
	} {
		if err := a.checkFolder(dir, want, nil); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		switch target, err := fs.ReadLink(a.files, name); {
		case err != nil:
			return err
		case target != targets[name]:
			return invalid("%s: a link to %q, want %s", name, target, targets[name])
		}
	}
	for _, id := range a.order {
		if err := a.checkLayer(id); err != nil {
			return err
		}
	}
	return a.checkToken(layout.LayersFile, layout.LayersLock)
}

func linkFile(id string) string { return layout.LinksDir + "/" + layout.LinkName(id) }

// checkLayer checks the folder of a layer.
func (a *auditor) checkLayer(id string) error {
	dir := layout.OverlayDir + "/" + id
	if fi, err := fs.Lstat(a.files, dir); err != nil {
		return err
	} else if !fi.IsDir() {
		return invalid("%s: %s, want %s", dir, kindOf(fi.Mode()), kindOf(folder))
	}
	want := listing{dir + "/diff": folder, dir + "/link": file}
	if a.layers[id] != "" {
		want[dir+"/lower"], want[dir+"/lower-layers"] = file, file
	}
	if err := a.checkFolder(dir, want, nil); err != nil {
		return err
	}
	text, err := readFile(a.files, dir+"/link", maxText)
	if err != nil {
		return err
	}
	if string(text) != layout.LinkName(id) {
		return invalid("%s/link: %.64q, want %s", dir, text, layout.LinkName(id))
	}
	if a.layers[id] == "" {
		return nil
	}
	for _, kind := range lowerFiles {
		text, err := readFile(a.files, dir+"/"+kind.name, maxText)
		if err != nil {
			return err
		}
		if !a.isLower(string(text), a.layers[id], kind) {
			return invalid("%s/%s: not the %s of the layers below it, from %s on", dir, kind.name, kind.what, a.layers[id])
		}
	}
	return nil
}

// lowerFile is a file that lists the layers below a layer, the nearest first, joined by colons.
type lowerFile struct {
	name, what string
	entry      func(id string) string
	// rest matches entries of layers that are below those of the store.
	rest *regexp.Regexp
}

// lowerFiles are the files of drivers/overlay in containers/storage: it prefers lower-layers since version 1.63, and
// before that reads lower.
var lowerFiles = []lowerFile{
	{"lower", "link names", func(id string) string { return "l/" + layout.LinkName(id) },
		regexp.MustCompile(`^(:l/[A-Z0-9]{26})*$`)},
	{"lower-layers", "IDs", func(id string) string { return id }, regexp.MustCompile(`^(:[a-f0-9]{64})*$`)},
}

// isLower reports whether a text is the file of a layer, whose parent is given. A layer that no image has may be
// on layers of other stores, whose parents are unknown.
func (a *auditor) isLower(text, parent string, kind lowerFile) bool {
	for before := ""; parent != ""; before = ":" {
		rest, ok := strings.CutPrefix(text, before+kind.entry(parent))
		if !ok {
			return false
		}
		above := parent
		if parent, ok = a.layers[above]; !ok {
			parent, ok = a.chains[above]
		}
		if !ok {
			return kind.rest.MatchString(rest)
		}
		text = rest
	}
	return text == ""
}

// checkImages checks the files of the images.
func (a *auditor) checkImages() error {
	want := listing{layout.ImagesFile: file, layout.ImagesLock: file}
	for id := range a.images {
		want[layout.ImagesDir+"/"+id] = folder
	}
	if err := a.checkFolder(layout.ImagesDir, want, nil); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(a.images)) {
		documents := listing{}
		for _, key := range a.images[id].keys {
			documents[layout.DocumentFile(id, key)] = file
		}
		if err := a.checkFolder(layout.ImagesDir+"/"+id, documents, nil); err != nil {
			return err
		}
	}
	return a.checkToken(layout.ImagesFile, layout.ImagesLock)
}

// checkOwn checks the files of pinbox.
func (a *auditor) checkOwn() error {
	own := listing{layout.OwnLock: file}
	if a.content.Delta.Thin != nil {
		recipes := path.Dir(layout.ThinIndex)
		own[recipes] = folder
		if err := a.checkFolder(recipes, listing{layout.ThinIndex: file, layout.ThinData: file}, nil); err != nil {
			return err
		}
	}
	if err := a.checkFolder(layout.OwnDir, own, listing{
		layout.OwnSets: folder, layout.OwnDelta: file, layout.OwnFiles: folder, layout.OwnProgram: file,
	}); err != nil {
		return err
	}
	sets := listing{}
	for name := range a.content.Sets {
		sets[layout.OwnSets+"/"+name] = file
	}
	left := maxFiles
	for _, err := range []error{a.checkFolder(layout.OwnSets, sets, nil), a.checkFiles(layout.OwnFiles, &left)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkFiles checks that a folder has only files and folders, at most left.
func (a *auditor) checkFiles(dir string, left *int) error {
	entries, err := readFolder(a.files, dir, *left)
	if err != nil {
		return err
	}
	*left -= len(entries)
	for _, e := range entries {
		name := dir + "/" + e.Name()
		fi, err := e.Info()
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		switch fi.Mode().Type() {
		case folder:
			if err := a.checkFiles(name, left); err != nil {
				return err
			}
		case file:
		default:
			return invalid("%s: %s, want a file or a folder", name, kindOf(fi.Mode()))
		}
	}
	return nil
}

// checkFolder checks that a folder has all entries of required, and others only of optional.
func (a *auditor) checkFolder(dir string, required, optional listing) error {
	entries, err := readFolder(a.files, dir, len(required)+len(optional))
	if err != nil {
		return err
	}
	missing := len(required)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		want, ok := required[name]
		if ok {
			missing--
		} else if want, ok = optional[name]; !ok {
			return invalid("%q: not a file of a store", name)
		}
		kind := e.Type()
		if want != opened {
			fi, err := e.Info()
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
			kind = fi.Mode().Type()
		}
		if kind != want.Type() {
			return invalid("%s: %s, want %s", name, kindOf(kind), kindOf(want))
		}
	}
	if missing > 0 {
		return invalid("%s: %d of %d entries are missing", dir, missing, len(required))
	}
	return nil
}

// readFolder lists a folder. More entries than most are an error.
func readFolder(files fs.FS, dir string, most int) ([]fs.DirEntry, error) {
	f, err := files.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, invalid("%s: not a folder", dir)
	}
	entries, err := d.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > most {
		return nil, invalid("%s: more than %d entries", dir, most)
	}
	return entries, nil
}

// checkToken checks that a lock file has the digest of its records.
func (a *auditor) checkToken(records, lock string) error {
	f, err := a.files.Open(records)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("%s: %w", records, err)
	}
	token, err := readFile(a.files, lock, sha256.BlockSize)
	if err != nil {
		return err
	}
	if string(token) != hex.EncodeToString(sum.Sum(nil)) {
		return invalid("%s: not the SHA-256 of %s", lock, records)
	}
	return nil
}

// kindOf names the type of a file.
func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case folder:
		return "a folder"
	case file:
		return "a file"
	case link:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a FIFO"
	}
	return "a device or a socket"
}
