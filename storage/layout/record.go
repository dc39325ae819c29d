package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Layer is an entry of layers.json: the type Layer in containers/storage, layers.go.
type Layer struct {
	ID                 string        `json:"id"`
	Parent             string        `json:"parent,omitempty"`
	Created            time.Time     `json:"created"`
	CompressedDigest   digest.Digest `json:"compressed-diff-digest"`
	CompressedSize     int64         `json:"compressed-size"`
	UncompressedDigest digest.Digest `json:"diff-digest"`
	UncompressedSize   int64         `json:"diff-size"`
	// Compression of the blob, with the values of the type Compression there,
	// pkg/archive/archive.go.
	Compression int      `json:"compression,omitempty"`
	UIDs        []uint32 `json:"uidset,omitempty"`
	GIDs        []uint32 `json:"gidset,omitempty"`
	// Flags that other programs set. pinbox sets none.
	Flags map[string]any `json:"flags,omitempty"`
}

// Incomplete reports whether the writer of the layer was stopped while it unpacked the layer:
// incompleteFlag in containers/storage, layers.go.
func (l Layer) Incomplete() bool { return l.Flags["incomplete"] == true }

// Image is an entry of images.json: the type Image in containers/storage, images.go.
type Image struct {
	ID             string                   `json:"id"`
	Digest         digest.Digest            `json:"digest"`
	Names          []string                 `json:"names"`
	TopLayer       string                   `json:"layer,omitempty"`
	Metadata       string                   `json:"metadata"`
	BigDataNames   []string                 `json:"big-data-names"`
	BigDataSizes   map[string]int64         `json:"big-data-sizes"`
	BigDataDigests map[string]digest.Digest `json:"big-data-digests"`
	Created        time.Time                `json:"created"`
}

// Container contains some fields of an entry of containers.json: the type Container in
// containers/storage, containers.go.
type Container struct {
	ID    string   `json:"id"`
	Names []string `json:"names"`
	Image string   `json:"image"`
	Layer string   `json:"layer"`
}

// RecordEncoder writes the JSON of a list of layers or images, record by record.
type RecordEncoder struct {
	w    io.Writer
	sum  hash.Hash
	text bytes.Buffer // of one record
	enc  *json.Encoder
	more bool
}

// NewRecordEncoder starts a list.
func NewRecordEncoder(w io.Writer) *RecordEncoder {
	e := &RecordEncoder{sum: sha256.New()}
	e.w = io.MultiWriter(e.sum, w)
	e.enc = json.NewEncoder(&e.text)
	e.enc.SetEscapeHTML(false)
	e.text.WriteByte('[')
	return e
}

// Add writes a record.
func (e *RecordEncoder) Add(record any) error {
	if e.more {
		e.text.WriteByte(',')
	}
	e.more = true
	if err := e.enc.Encode(record); err != nil {
		return err
	}
	e.text.Truncate(e.text.Len() - 1) // a line feed
	_, err := e.text.WriteTo(e.w)
	return err
}

// Close ends the list, and returns the token for its lock file. CRI-O reads the records of a store again only if the
// token has changed.
func (e *RecordEncoder) Close() (token []byte, err error) {
	e.text.WriteString("]\n")
	_, err = e.text.WriteTo(e.w)
	return []byte(hex.EncodeToString(e.sum.Sum(nil))), err
}

func (Layer) entries() int       { return 1 }
func (i Image) entries() int     { return 1 + len(i.Names) + len(i.BigDataNames) }
func (c Container) entries() int { return 1 + len(c.Names) }

func (l Layer) check(strict bool) error {
	if err := checkIDs(l.ID, "parent", l.Parent); err != nil {
		return err
	}
	if l.Parent == l.ID {
		return fmt.Errorf("parent %q: the layer itself", l.Parent)
	}
	if err := checkDigest("compressed-diff-digest", l.CompressedDigest); err != nil {
		return err
	}
	if strict && len(l.Flags) > 0 {
		return errors.New("flags: not allowed")
	}
	return checkDigest("diff-digest", l.UncompressedDigest)
}

func (i Image) check(bool) error {
	if err := checkIDs(i.ID, "layer", i.TopLayer); err != nil {
		return err
	}
	if err := checkDigest("digest", i.Digest); err != nil {
		return err
	}
	for _, name := range i.Names {
		_, _, err := pinset.Expand(name)
		if err != nil && !errors.Is(err, pinset.ErrNotPinned) { // other digests than SHA-256 are allowed
			return fmt.Errorf("names: %w", err)
		}
	}
	for _, key := range i.BigDataNames {
		if err := checkKey("big-data-names", key); err != nil {
			return err
		}
	}
	for key, d := range i.BigDataDigests {
		if err := checkKey("big-data-digests", key); err != nil {
			return err
		}
		if err := checkDigest("big-data-digests "+key, d); err != nil {
			return err
		}
	}
	return nil
}

func (c Container) check(bool) error {
	if err := checkIDs(c.ID, "layer", c.Layer); err != nil {
		return err
	}
	if c.Image != "" && !pinset.ValidID(c.Image) {
		return fmt.Errorf("image %q: not 64 hexadecimal digits", c.Image)
	}
	for _, name := range c.Names {
		if !pinset.Printable(name) {
			return fmt.Errorf("names: %q", name)
		}
	}
	return nil
}

// checkIDs checks the ID of a record, and the ID of the layer that the record refers to, which
// may be "".
func checkIDs(id, field, layer string) error {
	if !pinset.ValidID(id) {
		return fmt.Errorf("id %q: not 64 hexadecimal digits", id)
	}
	if layer != "" && !pinset.ValidID(layer) {
		return fmt.Errorf("%s %q: not 64 hexadecimal digits", field, layer)
	}
	return nil
}

// checkDigest accepts "": the layer of a container has no digest.
func checkDigest(field string, d digest.Digest) error {
	if d == "" {
		return nil
	}
	if err := d.Validate(); err != nil {
		return fmt.Errorf("%s %q: %w", field, d, err)
	}
	return nil
}

// checkKey refuses a key that cannot be a file name: see DataFile in storage/compose.
func checkKey(field, key string) error {
	if strings.Trim(key, ".") == "" || !pinset.Printable(key) {
		return fmt.Errorf("%s %q: not the name of a document", field, key)
	}
	return nil
}
