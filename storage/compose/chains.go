package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/pinbox/pinbox/storage/layout"
)

// chain describes a layer to the layers above.
type chain struct {
	parent       layerKey // the layer below
	size, inodes int64    // of LayerInfo
	root         rootAttributes
	known        bool // root
}

// layerKey is the ID of a layer as bytes, which take less memory than its digits. The zero layerKey is no layer: that
// what is below the lowest one has. An image may name a DiffID of zeros, which is the ID of its lowest layer then.
type layerKey struct {
	sum     [32]byte
	isLayer bool
}

// keyOf returns the key of an ID, which is a SHA-256, or of "". Another text has a key of its own.
func keyOf(id string) (k layerKey) {
	if id == "" {
		return layerKey{}
	}
	k.isLayer = true
	if n, err := hex.Decode(k.sum[:], []byte(id[:min(len(id), hex.EncodedLen(len(k.sum)))])); err != nil ||
		n < len(k.sum) || len(id) > hex.EncodedLen(n) {
		k.sum = sha256.Sum256([]byte(id))
	}
	return k
}

func (k layerKey) String() string { return hex.EncodeToString(k.sum[:]) }

// chains are the layers of a store and of its bases.
type chains struct {
	all   map[layerKey]chain
	texts map[rootAttributes]string // of the root attributes, each once
	last  lowers
}

// lowers is what lower returned last, and for which layer.
type lowers struct {
	of         layerKey
	links, ids string
}

func newChains() chains {
	return chains{
		all:   map[layerKey]chain{{}: {root: rootAttributes{perm: 0o555}, known: true}},
		texts: map[rootAttributes]string{},
	}
}

func (c chains) of(id string) (chain, bool) {
	found, ok := c.all[keyOf(id)]
	return found, ok
}

func (c chains) add(id string, layer chain) { c.all[keyOf(id)] = layer }

func (c chains) info(id string) (LayerInfo, bool) {
	l, ok := c.of(id)
	if !ok {
		return LayerInfo{}, false
	}
	info := LayerInfo{ID: id, Size: l.size, Inodes: l.inodes}
	if l.known {
		text, ok := c.texts[l.root]
		if !ok {
			text = l.root.String()
			c.texts[l.root] = text
		}
		info.RootAttributes = text
	}
	return info, true
}

// lower returns the content of the files "lower" and "lower-layers" of a layer: the link names and the IDs of the
// layers below it. They are made anew for each layer: those of 100,000 layers have 240 MB. Those of the last one are
// kept, since most layers come after the one below them.
func (c *chains) lower(parent string) (links, ids string) {
	var names, all []string
	top := keyOf(parent)
	for k := top; k != (layerKey{}); k = c.all[k].parent {
		if k == c.last.of {
			names, all = append(names, c.last.links), append(all, c.last.ids)
			break
		}
		id := k.String()
		names, all = append(names, "l/"+layout.LinkName(id)), append(all, id)
	}
	c.last = lowers{top, strings.Join(names, ":"), strings.Join(all, ":")}
	return c.last.links, c.last.ids
}
