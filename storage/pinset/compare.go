package pinset

import (
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Difference is the difference between two locks.
type Difference struct {
	// Changed are the images of which another digest is in the new lock, sorted by their names.
	Changed []Change `json:"changed,omitempty"`
	// Added, Removed and Unchanged are the pins of all others, sorted.
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	Unchanged []string `json:"unchanged"`
	// MovedTags are the tags that refer to another image in the new lock, sorted.
	MovedTags []string `json:"movedTags,omitempty"`
	// LayersAdded, LayersRemoved and LayersUnchanged count each blob once.
	LayersAdded     BlobTotals `json:"layersAdded"`
	LayersRemoved   BlobTotals `json:"layersRemoved"`
	LayersUnchanged BlobTotals `json:"layersUnchanged"`
}

// Change is an image with another digest.
type Change struct {
	// Name is that of the component or the first tag of the new image, else that of the repository.
	Name string `json:"name"`
	// Old and New are pins.
	Old string `json:"old"`
	New string `json:"new"`
	// NewLayers are those of the new image that the old lock does not have, of Layers.
	NewLayers BlobTotals `json:"newLayers"`
	Layers    int        `json:"layers"`
}

// BlobTotals is a number of blobs and their size in bytes.
type BlobTotals struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// Compare returns the images, tags and layers in which two locks differ.
func Compare(old, new Lock) Difference {
	var d Difference
	was, is := old.pins(), new.pins()
	d.Changed = pair(old, new)
	for _, c := range d.Changed {
		delete(was, c.Old)
		delete(is, c.New)
	}
	for _, pin := range slices.Sorted(maps.Keys(is)) {
		if was[pin] {
			d.Unchanged = append(d.Unchanged, pin)
		} else {
			d.Added = append(d.Added, pin)
		}
	}
	for _, pin := range slices.Sorted(maps.Keys(was)) {
		if !is[pin] {
			d.Removed = append(d.Removed, pin)
		}
	}
	tags := new.ByTag()
	for tag, img := range old.ByTag() {
		if now, ok := tags[tag]; ok && now != img {
			d.MovedTags = append(d.MovedTags, tag)
		}
	}
	slices.Sort(d.MovedTags)
	blobsWere, blobsAre := old.blobs(), new.blobs()
	for blob, size := range blobsAre {
		if _, ok := blobsWere[blob]; ok {
			d.LayersUnchanged.add(size)
		} else {
			d.LayersAdded.add(size)
		}
	}
	for blob, size := range blobsWere {
		if _, ok := blobsAre[blob]; !ok {
			d.LayersRemoved.add(size)
		}
	}
	return d
}

func (v *BlobTotals) add(bytes int64) { v.Count, v.Bytes = v.Count+1, v.Bytes+bytes }

func (l Lock) pins() map[string]bool {
	pins := map[string]bool{}
	for _, img := range l.Images {
		pins[img.Pin] = true
	}
	for _, a := range l.Artifacts {
		pins[a.Pin] = true
	}
	return pins
}

func (l Lock) blobs() map[digest.Digest]int64 {
	blobs := map[digest.Digest]int64{}
	for _, img := range l.Images {
		for _, layer := range img.Layers {
			blobs[layer.Digest] = layer.Size
		}
	}
	return blobs
}

// DescribeDifference describes, in lines, how a lock differs from another one that was made from
// the same inputs; it is "" if they are equal. It ignores the release, and the fields of a
// layer that are known only after the layer was unpacked.
func DescribeDifference(locked, now Lock) string {
	d := Compare(locked, now)
	var what []string
	for _, c := range d.Changed {
		what = append(what, "- "+c.Old, "+ "+c.New)
	}
	for _, pin := range d.Added {
		what = append(what, "+ "+pin)
	}
	for _, pin := range d.Removed {
		what = append(what, "- "+pin)
	}
	if len(what) == 0 && locked.Platform != now.Platform {
		what = append(what, "platform "+string(now.Platform)+", locked for "+string(locked.Platform))
	}
	if len(what) == 0 && locked.comparable() != now.comparable() {
		what = append(what, "the same images in other sets, under other tags or from other sources")
	}
	return strings.Join(what, "\n")
}

// comparable returns a digest of the lock, without what does not depend on the inputs, and the fields that only
// unpacking a layer fills in.
func (l Lock) comparable() digest.Digest {
	l = l.canonical()
	l.ReleaseID, l.Program = ReleaseID{}, nil
	known := map[*LockedLayer]*LockedLayer{}
	for i := range l.Images {
		layers := slices.Clone(l.Images[i].Layers)
		for n, layer := range layers {
			if known[layer] == nil {
				known[layer] = &LockedLayer{
					Digest: layer.Digest, Size: layer.Size, DiffID: layer.DiffID, MediaType: layer.MediaType,
				}
			}
			layers[n] = known[layer]
		}
		l.Images[i].Layers = layers
	}
	sum := digest.SHA256.Digester()
	_ = l.Encode(sum.Hash()) // a hash returns no errors
	return sum.Digest()
}
