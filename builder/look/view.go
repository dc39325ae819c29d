package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/fault"
)

const (
	// maxLinks is how many symbolic links a path may lead through, as in Linux.
	maxLinks = 40
	// maxPath is the longest path in bytes, PATH_MAX of Linux with its zero. It also bounds nested folders.
	maxPath = 4095
	// maxListed is how many files a list may have: those of the four largest layers that a build takes by default. The
	// folders of a damaged store may have the same folder below them many times.
	maxListed = 4 * compose.DefaultFiles
)

// Layer is the tree of a layer, by the paths of io/fs. It follows no links.
type Layer interface {
	// Lstat describes a file, without its name. The error is fs.ErrNotExist if the layer has none.
	Lstat(name string) (File, error)
	// ReadDir returns the names in a folder.
	ReadDir(name string) ([]string, error)
	// Open opens a regular file.
	Open(name string) (io.ReadCloser, error)
}

// View is an image as a container sees it: its layers, the topmost first.
type View []Layer

// node is a file of a view.
type node struct {
	File
	path string
	// in are the layers that have it, the topmost first: of a folder all of which it is merged.
	in     []int
	closed bool // what lower layers have here is hidden
}

// add merges what the next lower layer has at the same path.
func (n *node) add(layer int, f File) {
	switch {
	case n.closed:
	case f.whiteout || len(n.in) > 0 && !f.Mode.IsDir():
		n.closed = true
	default:
		if len(n.in) == 0 {
			n.File = f
		}
		n.in = append(n.in, layer)
		n.closed = f.opaque || !f.Mode.IsDir()
	}
}

// root is the top of the tree. Its layers are merged even if one is opaque, as by the kernel.
func (v View) root() (node, error) {
	n := node{File: File{Mode: Mode(fs.ModeDir | 0o755)}, path: "."} // of an image without layers
	for i, layer := range v {
		f, err := layer.Lstat(".")
		if err != nil {
			return n, err
		}
		f.opaque, f.whiteout = false, false
		n.add(i, f)
	}
	return n, nil
}

// child is a file in a folder.
func (v View) child(dir node, name string) (node, error) {
	n := node{path: path.Join(dir.path, name)}
	for _, i := range dir.in {
		f, err := v[i].Lstat(n.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, err
		}
		if n.add(i, f); n.closed {
			break
		}
	}
	if len(n.in) == 0 {
		return n, wrong(n.path, fs.ErrNotExist)
	}
	return n, nil
}

// members are the files in a folder, sorted. Each layer is read in one go, since a squashfs remembers the last folder.
func (v View) members(dir node) (all []node, err error) {
	byName := map[string]*node{}
	for _, i := range dir.in {
		names, err := v[i].ReadDir(dir.path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			n := byName[name]
			if n == nil {
				n = &node{path: path.Join(dir.path, name)}
				byName[name] = n
			}
			if n.closed {
				continue
			}
			f, err := v[i].Lstat(n.path)
			if err != nil {
				return nil, err
			}
			n.add(i, f)
		}
	}
	for n := range maps.Values(byName) {
		if len(n.in) > 0 {
			all = append(all, *n)
		}
	}
	slices.SortFunc(all, func(a, b node) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

// resolve finds the file of a path, and follows links as a process in the container does: never out of the image.
func (v View) resolve(name string) (node, error) {
	root, err := v.root()
	if err != nil {
		return root, err
	}
	at, links := []node{root}, 0 // the folders on the way
	for parts := strings.Split(name, "/"); len(parts) > 0; {
		part, here := parts[0], at[len(at)-1]
		parts = parts[1:]
		if !here.Mode.IsDir() {
			return here, wrong(here.path, syscall.ENOTDIR)
		}
		switch part {
		case "", ".":
			continue
		case "..":
			at = at[:max(1, len(at)-1)]
			continue
		}
		n, err := v.child(here, part)
		if err != nil {
			return n, err
		}
		if !n.Mode.isLink() {
			at = append(at, n)
			continue
		}
		if links++; links > maxLinks {
			return n, wrong(n.path, syscall.ELOOP)
		}
		if strings.HasPrefix(n.Target, "/") {
			at = at[:1]
		}
		parts = append(strings.Split(n.Target, "/"), parts...)
	}
	return at[len(at)-1], nil
}

// List calls visit for each file in a folder, sorted by name, and if deep for those in its folders, too; of anything
// else, for the file itself. It ends with the first error of visit.
func (v View) List(name string, deep bool, visit func(File) error) error {
	n, err := v.resolve(name)
	switch {
	case err != nil:
		return err
	case n.Mode.IsDir():
		listed := 0
		return v.list(n, "", deep, func(f File) error {
			if listed++; listed > maxListed {
				return fault.New(fault.Input, fmt.Sprintf("%s has more than %d files", path.Join("/", name), maxListed),
					"name a folder below it")
			}
			return visit(f)
		})
	}
	n.Name = path.Base(n.path)
	return visit(n.File)
}

func (v View) list(dir node, below string, deep bool, visit func(File) error) error {
	all, err := v.members(dir)
	if err != nil {
		return err
	}
	for _, n := range all {
		if len(n.path) > maxPath {
			return wrong(n.path[:40]+"…", syscall.ENAMETOOLONG)
		}
		n.Name = path.Join(below, path.Base(n.path))
		err := visit(n.File)
		if err == nil && deep && n.Mode.IsDir() {
			err = v.list(n, n.Name, deep, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copy writes a regular file to a writer, until the context ends.
func (v View) Copy(ctx context.Context, name string, to io.Writer) error {
	n, err := v.resolve(name)
	switch {
	case err != nil:
		return err
	case n.Mode.IsDir():
		return wrong(n.path, syscall.EISDIR)
	case !n.Mode.isRegular():
		return wrong(n.path, errors.New("it is a device, a pipe or a socket"))
	}
	f, err := v[n.in[0]].Open(n.path)
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		if _, err = io.CopyN(to, f, 1<<20); err == nil {
			err = ctx.Err()
		}
	}
	return fault.Ignore(err, io.EOF)
}

// wrong is the error for a path that the image does not have, or not as a file of the kind that is wanted.
func wrong(name string, why error) error {
	return fault.With(&fs.PathError{Op: "in the image", Path: path.Join("/", name), Err: why}, fault.Input,
		"`pinbox ls OUT IMAGE PATH` lists the files of an image")
}
