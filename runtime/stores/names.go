package stores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrNameTaken means that a store has a name which is another image's on the node.
var ErrNameTaken = fault.New(fault.Input, "a name of an image is another image's on this node",
	"remove the other image (`crictl rmi`) or detach its store; a tag of the same appliance moves with a delta")

// naming decides whether a store may have the names that it has.
type naming struct {
	slots slots
	// stores are those that are attached, and own is the release of the appliance's own.
	stores []Store
	own    pinset.ReleaseID
}

// check compares the names in a new store with those in the mounted stores and in CRI-O's main
// store, whose graph roots are given. A name of another image is refused, since it is
// not obvious which of them a container gets. A store may move a tag of its own appliance: these
// tags are returned.
func (n naming) check(o Store, c content, graphRoots []string) (moved []string, err error) {
	mounted, err := mount.ReadTable()
	if err != nil {
		return nil, err
	}
	slots := n.slots.mountedExcept(o, mounted)
	appliance := n.appliance(slots, relative{c.Lock.Name, c.Delta})
	for _, root := range slices.Concat(slots, n.slots.others, graphRoots) {
		found, err := otherImages(root, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
		for name, id := range found {
			if !appliance[root] {
				return nil, fmt.Errorf("%w: %s is the image %.12s in this store, and %.12s in %s", ErrNameTaken, name,
					c.Names[name], id, root)
			}
			moved = append(moved, name)
		}
	}
	slices.Sort(moved)
	return slices.Compact(moved), nil
}

// Images returns the images of stores. A folder without a store has none.
func Images(roots ...string) (all []pinset.StoredImage, err error) {
	var errs []error
	for _, root := range roots {
		err := layout.Open(os.DirFS(root)).Images(func(i layout.Image) error {
			all = append(all, pinset.StoredImage{ID: i.ID, Names: i.Names})
			return nil
		})
		if err := fault.Ignore(err, fs.ErrNotExist); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", root, err))
		}
	}
	return all, errors.Join(errs...)
}

// Unsigned returns the images of stores that have no signature of an image.
func Unsigned(roots ...string) (all []pinset.StoredImage, err error) {
	var errs []error
	for _, root := range roots {
		err := layout.Open(os.DirFS(root)).Images(func(i layout.Image) error {
			signature := func(key string) bool { return strings.HasPrefix(key, layout.SignaturePrefix) }
			if !slices.ContainsFunc(i.BigDataNames, signature) {
				all = append(all, pinset.StoredImage{ID: i.ID, Names: i.Names})
			}
			return nil
		})
		if err := fault.Ignore(err, fs.ErrNotExist); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", root, err))
		}
	}
	return all, errors.Join(errs...)
}

// Names returns the IDs of the images of stores, by their names.
func Names(roots ...string) (map[string]string, error) {
	images, err := Images(roots...)
	names := map[string]string{}
	for _, img := range images {
		for _, name := range img.Names {
			names[name] = img.ID
		}
	}
	return names, err
}

// otherImages finds the images at a root that have a name of a store, and are other ones. A name with a digest is one
// image, whatever its ID: audit has compared it with the manifest in the store, and CRI-O gives an image that it
// pulled in parts another ID (the digest of its TOC in containers/storage). A folder without a store has none.
func otherImages(root string, c content) (map[string]string, error) {
	manifests := map[string][]digest.Digest{} // by the tag
	for _, locked := range c.Lock.Images {
		for _, tag := range locked.Tags {
			manifests[tag] = []digest.Digest{locked.Manifest, locked.Index}
		}
	}
	found := map[string]string{}
	err := layout.Open(os.DirFS(root)).Images(func(i layout.Image) error {
		for _, name := range i.Names {
			id, ok := c.Names[name]
			same := id == i.ID || strings.Contains(name, "@") || i.Digest != "" && slices.Contains(manifests[name], i.Digest)
			if ok && !same {
				found[name] = i.ID
			}
		}
		return nil
	})
	return found, fault.Ignore(err, fs.ErrNotExist)
}

// relative is what tells which stores are of the same appliance as a store: its name, and its description
// if it is a delta.
type relative struct {
	name  string
	delta pinset.Delta
}

// appliance finds the stores of the appliance that a store belongs to: those with its name, those that
// it was made for and those with layers that it needs; and likewise for each of these.
func (n naming) appliance(slots []string, r relative) map[string]bool {
	found, relatives := map[string]bool{}, []relative{r}
	for len(relatives) > 0 {
		r, relatives = relatives[0], relatives[1:]
		needed, _ := providers(slots, r.delta.Needs)
		for _, slot := range slots {
			other := n.at(slot)
			if found[slot] || !slices.Contains(needed, slot) && !isRelease(slot, other, r) {
				continue
			}
			found[slot] = true
			if d, err := readDelta(os.DirFS(slot)); err == nil {
				relatives = append(relatives, relative{other.Name, d})
			}
		}
	}
	return found
}

// at returns the store at a slot; the appliance's own has no ID.
func (n naming) at(slot string) Store {
	for _, attached := range n.stores {
		if n.slots.path(attached) == slot {
			return attached
		}
	}
	return Store{ReleaseID: n.own}
}

// isRelease reports whether the store o at a slot has the name of another one, or is a base of it.
func isRelease(slot string, o Store, of relative) bool {
	lock := lockDigest(slot)
	return o.Name != "" && o.Name == of.name || slices.ContainsFunc(of.delta.Bases, func(b pinset.Base) bool {
		return b.Lock == lock || b.Store != "" && b.Store == o.ID
	})
}

// lockDigest is the digest of the lock of a store, "" if it cannot be read.
func lockDigest(root string) digest.Digest {
	f, err := os.Open(filepath.Join(root, layout.OwnLock))
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := digest.SHA256.Digester()
	if _, err := io.Copy(sum.Hash(), f); err != nil {
		return ""
	}
	return sum.Digest()
}
