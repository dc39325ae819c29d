package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/watch"
	"github.com/pinbox/pinbox/storage/pinset"
)

// readSets reads the sets of the node: those of the folder for its pools, and those of the cluster. Two of one name are
// one set with the images of both.
func (n *Node) readSets() ([]pinset.Set, error) {
	sets, err := n.folderSets()
	more, clusterErr := n.clusterSets()
	for _, set := range more {
		i := slices.IndexFunc(sets, func(s pinset.Set) bool { return s.Name == set.Name })
		if i < 0 {
			sets = append(sets, set)
			continue
		}
		sets[i].Images, sets[i].Generation = pinset.Union(sets[i], set), set.Generation
		sets[i].Store = cmp.Or(set.Store, sets[i].Store)
	}
	return sets, errors.Join(err, clusterErr)
}

// folderSets reads the sets of the folder for the node's pools.
func (n *Node) folderSets() ([]pinset.Set, error) {
	sets, err := watch.ReadSets(os.DirFS(n.s.Sets))
	if len(sets) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		if own, ownErr := n.ownSets(); len(own) > 0 || ownErr != nil {
			sets, err = own, ownErr
		}
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Path == "." {
		err = fmt.Errorf("folder of sets %s: %w", n.s.Sets, path.Err)
	}
	return watch.ForPools(sets, n.poolNames()), err
}

// wanted are the images of the sets and, on a node that the Machine Config Operator manages, the
// images that it pins.
func (n *Node) wanted() ([]pinset.Image, error) {
	sets, err := n.readSets()
	if owner, ownerErr := n.owner(); ownerErr != nil || owner != runtime.MCO {
		return pinset.Union(sets...), errors.Join(err, ownerErr)
	}
	if errors.Is(err, fs.ErrNotExist) { // such a node need not have the folder
		err = nil
	}
	config, configErr := crio.ReadConfig(os.DirFS(n.s.CRIODir))
	pinned := pinset.Set{}
	for _, pin := range config.PinnedImages {
		if img, err := pinset.ParseImage(pin); err == nil { // else it is a pattern
			pinned.Images = append(pinned.Images, img)
		}
	}
	return pinset.Union(append(sets, pinned)...), errors.Join(err, configErr)
}
