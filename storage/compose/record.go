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

	data       map[string][]byte
	signatures map[digest.Digest][][]byte
}

// Images are the records of the images of a store by their IDs.
type Images map[string]*ImageRecord

// Add adds an image. If the image is there already, the record gets its names, too.
func (all Images) Add(img Image) {
	manifest, id := digest.FromBytes(img.Manifest), digest.FromBytes(img.Config).Encoded()
	rec := all[id]
	if rec == nil {
		rec = &ImageRecord{Image: layout.Image{ID: id, Digest: manifest, TopLayer: img.TopLayer, Created: img.Created.UTC()}}
		all[id] = rec
	}
	rec.Names = append(rec.Names, img.Names...)
	rec.set(digest.FromBytes(img.Config).String(), img.Config)
	if img.Index != nil {
		rec.set(layout.ManifestKey(digest.FromBytes(img.Index)), img.Index)
	}
	rec.set(layout.ManifestKey(manifest), img.Manifest)
	rec.set("manifest", img.Manifest)
	if len(img.Signatures) > 0 {
		if len(rec.signatures[rec.Digest]) == 0 {
			rec.prefer(img.Manifest) // a policy checks the signatures of this manifest only
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
func (r *ImageRecord) Data(key string) []byte { return r.data[key] }

// set adds a document of the image, unless there is one with the key.
func (r *ImageRecord) set(key string, value []byte) {
	if r.data == nil {
		r.data = map[string][]byte{}
		r.BigDataSizes, r.BigDataDigests = map[string]int64{}, map[string]digest.Digest{}
	}
	if _, ok := r.data[key]; ok {
		return
	}
	r.data[key] = value
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

// prefer makes a manifest the image's own, whose signatures policies check.
func (r *ImageRecord) prefer(manifest []byte) {
	d := digest.FromBytes(manifest)
	r.Digest, r.data["manifest"] = d, manifest
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
		r.set(layout.SignatureKey(manifest), content)
		if manifest == r.Digest {
			sizes.Image = sizes.Each[manifest]
			r.set("signatures", content)
		}
	}
	metadata, err := json.Marshal(sizes)
	r.Metadata = string(metadata)
	return err
}
