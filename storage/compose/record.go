package compose

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
)

// ImageRecord is what becomes an entry of images.json, and the documents of the image: its manifests, configuration and
// signatures. The lists of these in the entry are made by Entry: their maps would take 1 KB for each image.
type ImageRecord struct {
	layout.Image

	// BigData has the documents, as in the entry, each key once.
	BigData    []BigData
	signatures map[digest.Digest][][]byte
}

// BigData is a document of an image.
type BigData struct {
	Document
	Key    string
	Digest digest.Digest
}

// Entry returns the entry of images.json.
func (r *ImageRecord) Entry() layout.Image {
	entry := r.Image
	entry.BigDataSizes, entry.BigDataDigests = map[string]int64{}, map[string]digest.Digest{}
	for _, d := range r.BigData {
		entry.BigDataNames = append(entry.BigDataNames, d.Key)
		entry.BigDataSizes[d.Key], entry.BigDataDigests[d.Key] = int64(d.Size()), d.Digest
	}
	return entry
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
	own, _ := rec.find(layout.ManifestKey(manifest))
	rec.set(BigData{own.Document, layout.ManifestData, manifest})
	if len(img.Signatures) > 0 {
		if len(rec.signatures[rec.Digest]) == 0 { // a policy checks the signatures of this manifest only
			rec.prefer(own.Document, manifest)
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

// find returns the document with a key.
func (r *ImageRecord) find(key string) (BigData, bool) {
	if n := r.index(key); n >= 0 {
		return r.BigData[n], true
	}
	return BigData{}, false
}

// index returns where the document with a key is; -1 if there is none.
func (r *ImageRecord) index(key string) int {
	return slices.IndexFunc(r.BigData, func(d BigData) bool { return d.Key == key })
}

// keep is set of a document that it keeps, unless there is one with the key.
func (r *ImageRecord) keep(key string, value []byte, kept *Documents) {
	if r.index(key) < 0 {
		r.set(BigData{kept.Keep(value), key, digest.FromBytes(value)})
	}
}

// set adds a document of the image, unless there is one with the key.
func (r *ImageRecord) set(d BigData) {
	if r.index(d.Key) < 0 {
		r.BigData = append(r.BigData, d)
	}
}

// addAll is set of many documents: a store of somebody else may list 100,000 for one image.
func (r *ImageRecord) addAll(documents []BigData) {
	known := map[string]bool{}
	for _, d := range r.BigData {
		known[d.Key] = true
	}
	for _, d := range documents {
		if !known[d.Key] {
			known[d.Key], r.BigData = true, append(r.BigData, d)
		}
	}
}

// SignatureSizes is the metadata of an image: the sizes in bytes of its signatures, which are
// concatenated in one document. It is the type storageImageMetadata there.
type SignatureSizes struct {
	// Image lists the sizes for the image's own manifest, which policies check.
	Image []int `json:"signature-sizes,omitempty"`
	// Each lists the sizes for each manifest.
	Each map[digest.Digest][]int `json:"signatures-sizes,omitempty"`
}

// Split returns the signatures of a manifest, which are in this file, and whether it has all of them.
func (s SignatureSizes) Split(manifest digest.Digest, file []byte) (all [][]byte, whole bool) {
	for _, size := range s.Each[manifest] {
		if size < 0 || size > len(file) {
			return all, false
		}
		all, file = append(all, file[:size]), file[size:]
	}
	return all, true
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
func (r *ImageRecord) prefer(manifest Document, d digest.Digest) {
	r.Digest, r.BigData[r.index(layout.ManifestData)] = d, BigData{manifest, layout.ManifestData, d}
}

// seal adds the documents and the metadata of the signatures.
func (r *ImageRecord) seal() error {
	sizes := SignatureSizes{Each: map[digest.Digest][]int{}}
	var documents []BigData
	for _, manifest := range slices.Sorted(maps.Keys(r.signatures)) {
		for _, s := range r.signatures[manifest] {
			sizes.Each[manifest] = append(sizes.Each[manifest], len(s))
		}
		content := bytes.Join(r.signatures[manifest], nil)
		sum := digest.FromBytes(content)
		documents = append(documents, BigData{Document{held: content}, layout.SignatureKey(manifest), sum})
		if manifest == r.Digest {
			sizes.Image = sizes.Each[manifest]
			documents = append(documents, BigData{Document{held: content}, "signatures", sum})
		}
	}
	r.addAll(documents)
	metadata, err := json.Marshal(sizes)
	r.Metadata = string(metadata)
	return err
}
