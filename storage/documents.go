package storage

import (
	"errors"

	"github.com/pinbox/pinbox/storage/compose"
)

// Documents says where the manifests and configurations of resolved images are. The zero value keeps them in memory.
type Documents struct {
	// None drops them, and the signatures: a lock needs neither.
	None bool
	// Tmp is a folder for a file without a name that takes them, and from which Fill reads them; "" for none.
	Tmp string
}

// documents are those of a client.
type documents struct {
	none bool
	file compose.Documents
}

// keptDocuments are those of an image in a file.
type keptDocuments struct{ index, manifest, config compose.Document }

// keep moves the documents of an image to where they are to be.
func (d *documents) keep(r *Resolved) error {
	switch {
	case d.none:
		r.Signatures = nil
	case d.file.Tmp == "":
		return nil
	default:
		r.kept = &keptDocuments{d.file.Keep(r.Index), d.file.Keep(r.Manifest), d.file.Keep(r.Config)}
	}
	r.Index, r.Manifest, r.Config = nil, nil, nil
	return d.file.Err()
}

// documents returns the index, if there is one, the manifest and the configuration.
func (r *Resolved) documents() (index, manifest, config []byte, err error) {
	if r.kept == nil {
		return r.Index, r.Manifest, r.Config, nil
	}
	index, err1 := r.kept.index.Read()
	manifest, err2 := r.kept.manifest.Read()
	config, err3 := r.kept.config.Read()
	return index, manifest, config, errors.Join(err1, err2, err3)
}
