package base

import (
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
)

// OfNode returns the base that the stores of a node are together, as far as it is of use to images: it has those of
// their layers that the node has, with all layers below them. It is named after the current store. There must be one.
func OfNode(stores []pinset.StoreContent, images []pinset.LockedImage) Base {
	current := pinset.CurrentContent(stores)
	b := Base{Base: current.Base, Held: map[string]compose.LayerInfo{}, Locked: pinset.Lock{
		Version: pinset.LockVersion, ReleaseID: current.ReleaseID, Platform: current.Platform, Program: current.Program,
	}}
	there := map[string]pinset.StoredLayer{}
	for _, s := range stores {
		for _, l := range s.Layers {
			there[l.ID] = l
		}
		for _, pin := range s.Artifacts {
			b.Locked.Artifacts = append(b.Locked.Artifacts, pinset.LockedArtifact{Pin: pin})
		}
	}
	b.Locked.Artifacts = once(b.Locked.Artifacts)
	for _, img := range images {
		for _, p := range Chain(img) {
			l, ok := there[p.ID]
			if !ok {
				break
			}
			b.Held[p.ID] = compose.LayerInfo{
				ID: p.ID, Size: l.UnpackedSize, Inodes: l.Inodes, RootAttributes: l.RootAttributes,
			}
		}
	}
	return b
}

// once removes repeated artifacts, which would count as those of several bases.
func once(artifacts []pinset.LockedArtifact) (all []pinset.LockedArtifact) {
	seen := map[string]bool{}
	for _, a := range artifacts {
		if !seen[a.Pin] {
			seen[a.Pin] = true
			all = append(all, a)
		}
	}
	return all
}
