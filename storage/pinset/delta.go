package pinset

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
)

// DeltaVersion is the version of the format of delta.json.
const DeltaVersion = 1

// ErrBadDelta is the error for a delta.json that this version cannot read.
var ErrBadDelta = fault.New(fault.Input, "not the description of a pinbox delta",
	"build the delta again")

// Delta describes a store that contains only those layers of its lock that its bases lack. It
// is the content of delta.json.
type Delta struct {
	Version int `json:"version"`
	// Bases that the delta was made for. A node has one of them.
	Bases []Base `json:"bases"`
	// Needs lists the layers that the images of the lock use and that are in other stores,
	// sorted. A node can use the delta if its other stores contain all of them.
	Needs []Need `json:"needs"`
	// Thin describes a thin delta; nil for another delta.
	Thin *Thin `json:"thin,omitempty"`
}

// ThinVersion is the version of the form of recipes.
const ThinVersion = 1

// maxStoreSize is more than any disk of a node has, and sums of it do not overflow.
const maxStoreSize = 1 << 50

// Thin describes a thin delta: it has recipes in place of layers, from which a node makes the store.
type Thin struct {
	// Version of the recipes.
	Version int `json:"version"`
	// StoreSize is the size in bytes of the store that nodes make, with its hash tree.
	StoreSize int64 `json:"storeSize"`
	// Reads are the IDs of the layers of other stores whose contents the recipes read, sorted.
	Reads []string `json:"reads"`
}

// Requires returns the IDs of all layers that other stores must have, sorted: the needs, and the layers whose contents
// are read.
func (d Delta) Requires() (ids []string) {
	for _, n := range d.Needs {
		ids = append(ids, n.Layer)
	}
	if d.Thin != nil {
		ids = append(ids, d.Thin.Reads...)
		slices.Sort(ids)
	}
	return slices.Compact(ids)
}

// Base identifies a store that a delta was made for.
type Base struct {
	// Store is the digest of the store's file, "" if only its lock was known.
	Store digest.Digest `json:"store,omitempty"`
	// Lock is the digest of the store's lock.
	Lock digest.Digest `json:"lock"`
}

// Need identifies a layer in another store.
type Need struct {
	// Layer is its ID, which depends on its content and on the layers below it.
	Layer string `json:"layer"`
	// Link is the short name by which overlay mounts it below the other layers.
	Link string `json:"link"`
}

// Encode writes the description in its canonical form.
func (d Delta) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}

// DecodeDelta reads a description of at most 64 MiB. Unknown fields, other versions, and invalid
// digests, IDs and link names are errors; the error names the entry and the field. The version is the
// first field.
func DecodeDelta(r io.Reader) (Delta, error) {
	d := Delta{Version: DeltaVersion}
	err := decodeObject(r, DeltaVersion, func(name string, s *stream) error {
		switch name {
		case "bases":
			return list(s, name, &d.Bases, nil)
		case "needs":
			return list(s, name, &d.Needs, nil)
		case "thin":
			return s.value(name, &d.Thin)
		}
		return unknownField(name)
	})
	if err == nil {
		err = d.validate()
	}
	if OtherVersion(err) {
		return Delta{}, fmt.Errorf("delta.json: %w", err)
	}
	if err != nil {
		return Delta{}, fmt.Errorf("%w: %w", ErrBadDelta, err)
	}
	return d, nil
}

// validate checks what concerns more than one entry.
func (d Delta) validate() error {
	for i := 1; i < len(d.Needs); i++ {
		if d.Needs[i].Layer <= d.Needs[i-1].Layer {
			return fmt.Errorf("needs[%d]: layer %s: not sorted, or repeated", i, d.Needs[i].Layer)
		}
	}
	if d.Thin == nil {
		return nil
	}
	if err := d.Thin.validate(); err != nil {
		return fmt.Errorf("thin: %w", err)
	}
	return nil
}

func (t Thin) validate() error {
	if t.Version == 0 {
		return noVersion(ThinVersion)
	}
	if err := CheckVersion(t.Version, ThinVersion); err != nil {
		return err
	}
	if t.StoreSize <= 0 || t.StoreSize > maxStoreSize {
		return fmt.Errorf("storeSize %d: want 1 to %d", t.StoreSize, int64(maxStoreSize))
	}
	for i, id := range t.Reads {
		if !ValidID(id) || i > 0 && id <= t.Reads[i-1] {
			return fmt.Errorf("reads[%d]: layer %q: not the ID of a layer, not sorted, or repeated", i, id)
		}
	}
	return nil
}

func (b Base) validate() error {
	if b.Store != "" {
		if err := CheckDigest("store", b.Store); err != nil {
			return err
		}
	}
	return CheckDigest("lock", b.Lock)
}

func (n Need) validate() error {
	switch {
	case !ValidID(n.Layer):
		return fmt.Errorf("layer %q: not the ID of a layer", n.Layer)
	case !linkName.MatchString(n.Link):
		return fmt.Errorf("link %q: not 26 letters and digits", n.Link)
	}
	return nil
}
