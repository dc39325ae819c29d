package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/watch"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// readSets reads the sets of the node: those of the folder for its pools, and those of the cluster. Two of one name are
// one set with the images of both.
func (n *Node) readSets() ([]pinset.Set, error) {
	if n.confErr != nil { // it has the pools
		return nil, n.confErr
	}
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
	_, found := os.Stat(n.conf.SetsDir)
	noFolder := errors.Is(err, fs.ErrNotExist) && errors.Is(found, fs.ErrNotExist)
	if len(sets) == 0 && (err == nil || noFolder) && clusterErr == nil {
		return nil, n.withoutSets(err)
	}
	return sets, errors.Join(err, clusterErr)
}

// withoutSets is what is wrong on a node that has no sets, if anything is. missing is that there is no folder of them;
// nil if it is empty. An API may have none for the node's pools, but sets that came with a store do not just vanish.
func (n *Node) withoutSets(missing error) error {
	m, err := n.manager()
	if err != nil {
		return errors.Join(missing, err)
	}
	if n.conf.Sets == layout.SetsOptional {
		return nil
	}
	state, _ := stores.ReadState(m.Dir)  // likewise
	known, _ := os.Stat(n.clusterFile()) // nil if the node follows no cluster
	brought := slices.ContainsFunc(state.Releases, func(r stores.Release) bool { return len(r.Sets) > 0 })
	if n.owner() == runtime.MCO || !brought && (known != nil || n.conf.Kubeconfig != "") {
		return missing
	}
	if missing != nil {
		return fmt.Errorf("%w: %w", runtime.ErrNoSets, missing)
	}
	return fmt.Errorf("%w: %s has none, and %s does not say that it is to have none (\"sets\": \"optional\")",
		runtime.ErrNoSets, n.conf.SetsDir, n.s.Config)
}

// folderSets reads the sets of the folder for the node's pools.
func (n *Node) folderSets() ([]pinset.Set, error) {
	sets, err := watch.ReadSets(input.Dir(n.conf.SetsDir))
	if len(sets) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		if own, ownErr := n.ownSets(); len(own) > 0 || ownErr != nil {
			sets, err = own, ownErr
		}
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Path == "." {
		err = fmt.Errorf("folder of sets %s: %w", n.conf.SetsDir, path.Err)
	}
	return watch.ForPools(sets, n.poolNames()), err
}

// wanted are the images of the sets and, on a node that the Machine Config Operator manages, the
// images that it pins.
func (n *Node) wanted() ([]pinset.Image, error) {
	n = n.reopen() // it may have waited for another process
	sets, err := n.readSets()
	if n.owner() != runtime.MCO {
		return pinset.Union(sets...), err
	}
	if errors.Is(err, fs.ErrNotExist) { // such a node need not have the folder
		err = nil
	}
	pinned := pinset.Set{}
	for _, pin := range n.crio.PinnedImages {
		if img, err := pinset.ParseImage(pin); err == nil { // else it is a pattern
			pinned.Images = append(pinned.Images, img)
		}
	}
	return pinset.Union(append(sets, pinned)...), errors.Join(err, n.crioErr)
}
