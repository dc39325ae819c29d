package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
)

// maxAttached is how many signatures of an image are described.
const maxAttached = 100

// attached describes the signatures of an image, which has these digests. metadata is that of its record.
func attached(
	store *layout.Store, image string, own []digest.Digest, metadata string,
) (all []Attached, err error) {
	if metadata == "" { // other programs leave it out
		return nil, nil
	}
	var sizes compose.SignatureSizes
	if err := json.Unmarshal([]byte(metadata), &sizes); err != nil {
		return nil, err
	}
	for _, manifest := range slices.Sorted(maps.Keys(sizes.Each)) {
		if err := manifest.Validate(); err != nil {
			return all, err
		}
		file, err := store.Document(image, layout.SignatureKey(manifest))
		if err != nil {
			return all, err
		}
		signatures, whole := sizes.Split(manifest, file)
		for _, s := range signatures {
			if len(all) == maxAttached {
				return all, fmt.Errorf("there are more than %d", maxAttached)
			}
			c, err := storage.UntrustedClaim(s)
			if err != nil {
				return all, err
			}
			all = append(all, Attached{
				Form: c.Form, Keys: c.Keys, Reference: c.Name, Manifest: c.Digest,
				Other: c.Digest == "" || !slices.Contains(own, c.Digest), Check: NotChecked,
			})
		}
		if !whole {
			return all, errors.New("they are truncated")
		}
	}
	return all, nil
}
