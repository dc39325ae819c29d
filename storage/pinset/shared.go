package pinset

import "github.com/opencontainers/go-digest"

// Shared lets images have their layers in common, where they are equal: 2,000 images of one vendor have 100,000 layers,
// but 14,000 different ones. A layer must not be changed after that. The zero value has no layers.
type Shared struct {
	layers map[digest.Digest]*LockedLayer // by the digests of their blobs
	texts  map[string]string              // media types and root attributes, of which there are few
}

// Layers returns layers of which each is the earlier one that is equal, if there is one.
func (s *Shared) Layers(layers []*LockedLayer) []*LockedLayer {
	if len(layers) == 0 {
		return layers
	}
	if s.layers == nil {
		s.layers, s.texts = map[digest.Digest]*LockedLayer{}, map[string]string{}
	}
	all := make([]*LockedLayer, len(layers)) // a decoder makes lists up to twice as large
	for i, l := range layers {
		known := s.layers[l.Digest]
		if known == nil || *known != *l {
			if l.DiffID == l.Digest {
				l.DiffID = l.Digest // one text
			}
			l.MediaType, l.RootAttributes = s.text(l.MediaType), s.text(l.RootAttributes)
			known, s.layers[l.Digest] = l, l
		}
		all[i] = known
	}
	return all
}

func (s *Shared) text(text string) string {
	known, ok := s.texts[text]
	if !ok {
		known, s.texts[text] = text, text
	}
	return known
}
