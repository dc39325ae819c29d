package compose

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
)

// ImageRecord is an entry of images.json with the documents of the image: its manifests,
// configuration and signatures.
type ImageRecord struct {
	layout.Image

	data       map[string]Document
	signatures map[digest.Digest][][]byte
}

// Images are the records of the images of a store by their IDs.
type Images map[string]*ImageRecord

// Add adds an image, and keeps its documents in kept. If the image is there already, the record gets its names, too.
func (all Images) Add(img Image, kept *Documents) {
	manifest, id := digest.FromBytes(img.Manifest), digest.FromBytes(img.Config).Encoded()
	rec := all[id]
	if rec == nil {
		rec = &ImageRecord{Image: layout.Image{ID: id, Digest: manifest, TopLayer: img.TopLayer, Created: img.Created.UTC()}}
		all[id] = rec
	}
	rec.Names = append(rec.Names, img.Names...)
	rec.keep(digest.FromBytes(img.Config).String(), img.Config, kept)
	if img.Index != nil {
		rec.keep(layout.ManifestKey(digest.FromBytes(img.Index)), img.Index, kept)
	}
	rec.keep(layout.ManifestKey(manifest), img.Manifest, kept)
	rec.set("manifest", img.Manifest, rec.data[layout.ManifestKey(manifest)])
	if len(img.Signatures) > 0 {
		if len(rec.signatures[rec.Digest]) == 0 { // a policy checks the signatures of this manifest only
			rec.prefer(img.Manifest, rec.data[layout.ManifestKey(manifest)])
		}
		rec.sign(manifest, img.Signatures)
	}
}

// Records returns the records with all signatures, sorted by ID, their names sorted. It can be
// called once.
func (all Images) Records() ([]*ImageRecord, error) {
	list := []*ImageRecord{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		rec := all[id]
		slices.Sort(rec.Names)
		rec.Names = slices.Compact(rec.Names)
		if err := rec.seal(); err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	return list, nil
}

// Data returns the document with a key of BigDataNames.
func (r *ImageRecord) Data(key string) ([]byte, error) { return r.data[key].Read() }

// keep is set of a document that it keeps, unless there is one with the key.
func (r *ImageRecord) keep(key string, value []byte, kept *Documents) {
	if _, ok := r.data[key]; !ok {
		r.set(key, value, kept.Keep(value))
	}
}

// set adds a document of the image, unless there is one with the key. doc has the value.
func (r *ImageRecord) set(key string, value []byte, doc Document) {
	if r.data == nil {
		r.data = map[string]Document{}
		r.BigDataSizes, r.BigDataDigests = map[string]int64{}, map[string]digest.Digest{}
	}
	if _, ok := r.data[key]; ok {
		return
	}
	r.data[key] = doc
	r.BigDataNames = append(r.BigDataNames, key)
	r.BigDataSizes[key], r.BigDataDigests[key] = int64(len(value)), digest.FromBytes(value)
}

// SignatureSizes is the metadata of an image: the sizes in bytes of its signatures, which are
// concatenated in one document. It is the type storageImageMetadata there.
type SignatureSizes struct {
	// Image lists the sizes for the image's own manifest, which policies check.
	Image []int `json:"signature-sizes,omitempty"`
	// Each lists the sizes for each manifest.
	Each map[digest.Digest][]int `json:"signatures-sizes,omitempty"`
}

// sign adds signatures of a manifest, each once.
func (r *ImageRecord) sign(manifest digest.Digest, signatures [][]byte) {
	if r.signatures == nil {
		r.signatures = map[digest.Digest][][]byte{}
	}
	for _, s := range signatures {
		if !slices.ContainsFunc(r.signatures[manifest], func(o []byte) bool { return bytes.Equal(o, s) }) {
			r.signatures[manifest] = append(r.signatures[manifest], s)
		}
	}
}

// prefer makes a manifest the image's own, whose signatures policies check. doc has it.
func (r *ImageRecord) prefer(manifest []byte, doc Document) {
	d := digest.FromBytes(manifest)
	r.Digest, r.data["manifest"] = d, doc
	r.BigDataSizes["manifest"], r.BigDataDigests["manifest"] = int64(len(manifest)), d
}

// seal adds the documents and the metadata of the signatures.
func (r *ImageRecord) seal() error {
	sizes := SignatureSizes{Each: map[digest.Digest][]int{}}
	for _, manifest := range slices.Sorted(maps.Keys(r.signatures)) {
		for _, s := range r.signatures[manifest] {
			sizes.Each[manifest] = append(sizes.Each[manifest], len(s))
		}
		content := bytes.Join(r.signatures[manifest], nil)
		r.set(layout.SignatureKey(manifest), content, Document{held: content})
		if manifest == r.Digest {
			sizes.Image = sizes.Each[manifest]
			r.set("signatures", content, Document{held: content})
		}
	}
	metadata, err := json.Marshal(sizes)
	r.Metadata = string(metadata)
	return err
}
