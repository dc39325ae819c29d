package pinset

import "github.com/opencontainers/go-digest"

// Layers are the unpacked layers of a node: the ID of each layer by its parent and by any of its
// digests. The parent is part of the key, since an unpacked layer is a difference to its parent.
type Layers map[link]string

type link struct {
	parent string
	digest digest.Digest
}

// anyParent is the parent of the entries that are looked up without one.
const anyParent = "*"

// Add adds a layer with its ID, the ID of its parent ("" for the lowest layer), and its known
// digests: of its blob, of its tar stream.
func (l Layers) Add(id, parent string, digests ...digest.Digest) {
	for _, d := range digests {
		if d != "" {
			l[link{parent, d}], l[link{anyParent, d}] = id, id
		}
	}
}

// MissingLayers returns the layers of an image that are not unpacked on the node, and the size in
// bytes of the blobs that have to be fetched for them: containers/image copies a layer that is
// unpacked on another parent. The missing layers are then added to l, so that the next image that
// shares them does not count them again.
func (l Layers) MissingLayers(img LockedImage) (layers []*LockedLayer, fetch int64) {
	parent := ""
	for i, layer := range img.Layers {
		id, ok := l[link{parent, layer.DiffID}]
		if !ok {
			id, ok = l[link{parent, layer.Digest}]
		}
		if !ok {
			return img.Layers[i:], l.addMissing(parent, img.Layers[i:])
		}
		parent = id
	}
	return nil, 0
}

// MissingBlobs returns the blobs of an image that are not unpacked on any parent, with their sizes
// in bytes.
func (l Layers) MissingBlobs(img LockedImage) map[digest.Digest]int64 {
	missing := map[digest.Digest]int64{}
	for _, layer := range img.Layers {
		_, blob := l[link{anyParent, layer.Digest}]
		_, diff := l[link{anyParent, layer.DiffID}]
		if !blob && !diff {
			missing[layer.Digest] = layer.Size
		}
	}
	return missing
}

// addMissing adds layers that will be pulled, and returns the bytes to fetch.
func (l Layers) addMissing(parent string, layers []*LockedLayer) (fetch int64) {
	for _, layer := range layers {
		if _, ok := l[link{anyParent, layer.Digest}]; !ok {
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
	// Names with digests and with tags.
	Names  []string
	Pinned bool
}
