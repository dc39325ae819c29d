package compose

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// merge adds an image of another store with its documents. As in Add, existing documents stay, and
// a signed manifest is preferred.
func (all Images) merge(from *ImageRecord, store *squashfs.Reader) error {
	if err := from.load(store); err != nil {
		return err
	}
	signatures, err := from.split()
	if err != nil {
		return err
	}
	rec := all[from.ID]
	if rec == nil {
		rec = &ImageRecord{
			Image: layout.Image{ID: from.ID, Digest: from.Digest, TopLayer: from.TopLayer, Created: from.Created},
		}
		all[from.ID] = rec
	}
	rec.Names = append(rec.Names, from.Names...)
	for _, key := range from.BigDataNames {
		if key != "signatures" && !strings.HasPrefix(key, "signature-") { // seal writes them again
			rec.set(key, from.data[key].held, from.data[key])
		}
	}
	if len(signatures[from.Digest]) > 0 && len(rec.signatures[rec.Digest]) == 0 {
		rec.prefer(from.data["manifest"].held, from.data["manifest"])
	}
	for _, manifest := range slices.Sorted(maps.Keys(signatures)) {
		rec.sign(manifest, signatures[manifest])
	}
	return nil
}

// load reads the image's documents.
func (r *ImageRecord) load(store *squashfs.Reader) error {
	r.data = map[string]Document{}
	for _, key := range r.BigDataNames {
		content, err := audit.Document(store, r.Image, key)
		if err != nil {
			return err
		}
		r.data[key] = Document{held: content}
	}
	if r.BigDataDigests["manifest"] != r.Digest || r.BigDataDigests[r.configKey()].String() != r.configKey() {
		return fmt.Errorf("%w: its manifest or configuration belongs to another image", ErrForeignStore)
	}
	return nil
}

// configKey is the key of the configuration, whose digest is the ID of the image.
func (r *ImageRecord) configKey() string {
	return layout.ConfigKey(r.ID)
}

// split reverses seal: it returns the signatures by their manifests.
func (r *ImageRecord) split() (map[digest.Digest][][]byte, error) {
	var sizes SignatureSizes
	if err := json.Unmarshal([]byte(r.Metadata), &sizes); err != nil {
		return nil, fmt.Errorf("%w: its metadata: %w", ErrForeignStore, err)
	}
	signatures := map[digest.Digest][][]byte{}
	for manifest, each := range sizes.Each {
		if err := manifest.Validate(); err != nil {
			return nil, fmt.Errorf("%w: its metadata: %w", ErrForeignStore, err)
		}
		rest := r.data[layout.SignatureKey(manifest)].held
		for _, size := range each {
			if size < 0 || size > len(rest) {
				return nil, fmt.Errorf("%w: signatures of %s are truncated", ErrForeignStore, manifest)
			}
			signatures[manifest] = append(signatures[manifest], rest[:size])
			rest = rest[size:]
		}
	}
	return signatures, nil
}

// layers returns the IDs of all layers that the images use.
func (all Images) layers() (map[string]bool, error) {
	needed := map[string]bool{}
	for id, rec := range all {
		config, err := rec.Data(rec.configKey())
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", id, err)
		}
		chain, err := audit.Chain(config)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", id, foreign(err))
		}
		top := ""
		for _, top = range chain {
			needed[top] = true
		}
		if top != rec.TopLayer {
			return nil, fmt.Errorf("image %s: %w: its top layer is %s by its configuration, %s by its record", id,
				ErrForeignStore,
				top, rec.TopLayer)
		}
	}
	return needed, nil
}
