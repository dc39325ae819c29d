package pinset

import "github.com/opencontainers/go-digest"

// Layers is what a node has unpacked: every layer by its parent and by any of
// its digests. A layer counts only on top of the right parent, since unpacked it
// is the difference to that one.
type Layers map[link]string

type link struct {
	parent string
	digest digest.Digest
}

// anywhere stands for every parent.
const anywhere = "*"

// Add notes a layer with its ID, that of its parent ("" for a base), and the
// digests that it is known by: of its blob, of its tar stream.
func (l Layers) Add(id, parent string, digests ...digest.Digest) {
	for _, d := range digests {
		if d != "" {
			l[link{parent, d}], l[link{anywhere, d}] = id, id
		}
	}
}

// MissingLayers gives the layers of an image that are not there, and the bytes of those
// whose blobs have to be fetched: containers/image takes what is unpacked on
// another parent from there. It notes them as there: the next image that shares
// them does not count them again.
func (l Layers) MissingLayers(img LockedImage) (layers []LockedLayer, fetch int64) {
	parent := ""
	for i, layer := range img.Layers {
		id, ok := l[link{parent, layer.DiffID}]
		if !ok {
			id, ok = l[link{parent, layer.Digest}]
		}
		if !ok {
			return img.Layers[i:], l.promise(parent, img.Layers[i:])
		}
		parent = id
	}
	return nil, 0
}

// MissingBlobs gives the blobs of an image that are unpacked nowhere, with their sizes
// in bytes.
func (l Layers) MissingBlobs(img LockedImage) map[digest.Digest]int64 {
	absent := map[digest.Digest]int64{}
	for _, layer := range img.Layers {
		_, blob := l[link{anywhere, layer.Digest}]
		_, diff := l[link{anywhere, layer.DiffID}]
		if !blob && !diff {
			absent[layer.Digest] = layer.Size
		}
	}
	return absent
}

func (l Layers) promise(parent string, layers []LockedLayer) (fetch int64) {
	for _, layer := range layers {
		if _, ok := l[link{anywhere, layer.Digest}]; !ok {
			fetch += layer.Size
		}
		id := parent + "+" + layer.Digest.String()
		l.Add(id, parent, layer.Digest, layer.DiffID)
		parent = id
	}
	return fetch
}

// StoredImage is an image as a container runtime lists it.
type StoredImage struct {
	ID string
	// Names of every form, those of digests and of tags.
	Names  []string
	Pinned bool
}
