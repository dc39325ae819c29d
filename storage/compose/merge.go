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
func (all Images) merge(record layout.Image, store *squashfs.Reader) error {
	from, err := load(record, store)
	if err != nil {
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
	rec.addAll(slices.DeleteFunc(slices.Clone(from.BigData), func(d BigData) bool { // seal writes these again
		return d.Key == "signatures" || strings.HasPrefix(d.Key, "signature-")
	}))
	if len(signatures[from.Digest]) > 0 && len(rec.signatures[rec.Digest]) == 0 {
		own, _ := from.find(layout.ManifestData)
		rec.prefer(own.Document, from.Digest)
	}
	for _, manifest := range slices.Sorted(maps.Keys(signatures)) {
		rec.sign(manifest, signatures[manifest])
	}
	return nil
}

// load reads the documents of an image.
func load(image layout.Image, store *squashfs.Reader) (*ImageRecord, error) {
	r := &ImageRecord{Image: image}
	for _, key := range image.BigDataNames {
		content, err := audit.Document(store, image, key)
		if err != nil {
			return nil, err
		}
		r.BigData = append(r.BigData, BigData{Document{held: content}, key, image.BigDataDigests[key]})
	}
	if image.BigDataDigests[layout.ManifestData] != r.Digest ||
		image.BigDataDigests[r.configKey()].String() != r.configKey() {
		return nil, fmt.Errorf("%w: its manifest or configuration belongs to another image", ErrForeignStore)
	}
	return r, nil
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
	held, signatures := map[string][]byte{}, map[digest.Digest][][]byte{}
	for _, d := range r.BigData {
		held[d.Key] = d.held
	}
	for manifest := range sizes.Each {
		if err := manifest.Validate(); err != nil {
			return nil, fmt.Errorf("%w: its metadata: %w", ErrForeignStore, err)
		}
		all, whole := sizes.Split(manifest, held[layout.SignatureKey(manifest)])
		if !whole {
			return nil, fmt.Errorf("%w: signatures of %s are truncated", ErrForeignStore, manifest)
		}
		if len(all) > 0 {
			signatures[manifest] = all
		}
	}
	return signatures, nil
}

// layers returns the IDs of all layers that the images use.
func (all Images) layers() (map[string]bool, error) {
	needed := map[string]bool{}
	for id, rec := range all {
		config, _ := rec.find(rec.configKey())
		content, err := config.Read()
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", id, err)
		}
		chain, err := audit.Chain(content)
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
