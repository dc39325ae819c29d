package pinset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
)

// DeltaVersion is the version of the format of a delta's description.
const DeltaVersion = 1

// ErrBadDelta says that a file is no description of a delta that this version can
// read.
var ErrBadDelta = errors.New("not the description of a pinbox delta")

// Delta describes a store that has only some of its lock's layers: those that its
// bases lack.
type Delta struct {
	Version int `json:"version"`
	// Name of the appliance.
	Name string `json:"name"`
	// Bases that it was made for. A node has one of them.
	Bases []Base `json:"bases"`
	// Needs are the layers of other stores that the images of the lock stand on,
	// sorted. They decide whether a node can use the delta.
	Needs []Need `json:"needs"`
}

// Base is a store that a delta was made for.
type Base struct {
	// Store is the digest of its file, "" where only its lock was known.
	Store digest.Digest `json:"store,omitempty"`
	// Lock is the digest of its lock.
	Lock digest.Digest `json:"lock"`
}

// Need is a layer in another store.
type Need struct {
	// Layer is its ID, which tells what it holds and what it stands on.
	Layer string `json:"layer"`
	// Link is the short name by which the layers above it mount it.
	Link string `json:"link"`
}

// Encode writes the description in its canonical form.
func (d Delta) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}

// DecodeDelta reads a description. Unknown fields and other versions are errors, and so
// is any digest, ID or link name that no build writes: the error names the record and the
// field.
func DecodeDelta(r io.Reader) (Delta, error) {
	var d Delta
	err := Decode(r, DeltaVersion, &d)
	if err == nil {
		err = d.validate()
	}
	if err != nil {
		return Delta{}, fmt.Errorf("%w: %w", ErrBadDelta, err)
	}
	return d, nil
}

func (d Delta) validate() error {
	for i, b := range d.Bases {
		err := CheckDigest("lock", b.Lock)
		if err == nil && b.Store != "" {
			err = CheckDigest("store", b.Store)
		}
		if err != nil {
			return fmt.Errorf("bases[%d]: %w", i, err)
		}
	}
	for i, n := range d.Needs {
		switch {
		case !ValidID(n.Layer):
			return fmt.Errorf("needs[%d]: layer %q: not the ID of a layer", i, n.Layer)
		case !linkName.MatchString(n.Link):
			return fmt.Errorf("needs[%d]: link %q: not 26 letters and digits", i, n.Link)
		}
	}
	return nil
}
