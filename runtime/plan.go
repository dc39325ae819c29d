package runtime

import (
	"cmp"
	"path"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Plan is what a pass is going to do.
type Plan struct {
	// Owner of the drop-in. If that is MCO, a pass does nothing.
	Owner Owner
	// Pins that the drop-in will have, whether it has to be written, and whether
	// CRI-O has to read it.
	Pins            []pinset.Image
	Rewrite, Reload bool
	// Unpin are the images that no set asks for any more.
	Unpin []pinset.Image
	// Pulls in their order: releases first, then the smallest.
	Pulls []Pull
	// Root of the store that images are pulled to.
	Root string
	// Unknown are images that cannot be pulled, as nobody can say what they are.
	Unknown map[pinset.Image]Fault
	// Claims on file systems.
	Claims []Claim
	// Problem that would keep the pass from ending well.
	Problem error
	// Problems that make the plan less exact: a lock that cannot be read.
	Problems []error
}

// Pull is an image to fetch, and what that takes.
type Pull struct {
	Image pinset.Image
	Need
	// absent are the blobs that are nowhere on the node when the pass begins.
	absent map[digest.Digest]int64
}

// Need of disk space.
type Need struct {
	// Fetch is the bytes of the blobs to fetch.
	Fetch int64
	// Unpacked bytes and inodes of the layers that the node lacks.
	Unpacked, Inodes int64
	// Estimated says that a lock does not know the sizes.
	Estimated bool
}

func (n *Need) add(more Need) {
	n.Fetch += more.Fetch
	n.Unpacked += more.Unpacked
	n.Inodes += more.Inodes
	n.Estimated = n.Estimated || more.Estimated
}

// Estimates for layers that no lock knows: the Machine Config Operator's factor
// (pkg/daemon/pinned_image_set.go), and the mean size of a file in a base image.
const (
	unpackedPerFetched = 2
	bytesPerInode      = 32 << 10
)

// pulls orders the images and says what each takes, given the layers that are
// there; those that images share count once.
func pulls(missing []pinset.LockedImage, layers pinset.Layers) ([]Pull, error) {
	missing = slices.Clone(missing)
	slices.SortFunc(missing, func(a, b pinset.LockedImage) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Pin, b.Pin))
	})
	all := make([]Pull, len(missing))
	for i, locked := range missing {
		img, err := pinset.ParseImage(locked.Pin)
		if err != nil {
			return nil, err
		}
		all[i] = Pull{Image: img, absent: layers.Absent(locked)}
	}
	for i, locked := range missing { // now that it is known what is nowhere
		lacks, fetch := layers.Lacks(locked)
		all[i].Need = need(lacks, fetch)
	}
	return all, nil
}

// rank puts releases first, for it is they that say what else is needed, and
// large images last.
func rank(img pinset.LockedImage) int64 {
	parsed, err := pinset.ParseImage(img.Pin)
	if err == nil && slices.Contains([]string{"ocp-release", "ocp-release-nightly", "release-images", "release", "scos-release"}, path.Base(parsed.Repository)) {
		return -1
	}
	var size int64
	for _, l := range img.Layers {
		size += l.Size
	}
	return size
}

func need(layers []pinset.LockedLayer, fetch int64) Need {
	n := Need{Fetch: fetch}
	for _, l := range layers {
		one := Need{Unpacked: l.UnpackedSize, Inodes: l.Inodes}
		if l.UnpackedSize == 0 {
			one.Unpacked, one.Estimated = unpackedPerFetched*l.Size, true
			one.Inodes = one.Unpacked / bytesPerInode
		}
		n.add(one)
	}
	return n
}

// demand is what pulling these images takes, of which parallel are in the works
// at a time: blobs are staged until they are unpacked.
func demand(all []Pull, parallel int) (n Need, staged int64) {
	var fetches []int64
	for _, p := range all {
		n.add(p.Need)
		fetches = append(fetches, p.Fetch)
	}
	slices.Sort(fetches)
	for _, f := range fetches[max(0, len(fetches)-parallel):] {
		staged += f
	}
	return n, staged
}

// Need of all pulls together.
func (p Plan) Need() Need {
	n, _ := demand(p.Pulls, 0)
	return n
}
