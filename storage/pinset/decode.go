package pinset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/document"
)

// ErrNewer says that a document has a later version than this program reads.
var ErrNewer = errors.New("a newer pinbox made it, so update this one")

// Decode reads a JSON document that has a field "version", of at most the size that
// document.ReadAll takes. The version is compared before any other field is read, since a
// newer document may have others: a later one is ErrNewer. Unknown fields are errors.
func Decode(r io.Reader, version int, into any) error {
	text, err := document.ReadAll(r)
	if err != nil {
		return err
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	switch {
	case head.Version > version:
		return fmt.Errorf("version %d; this pinbox reads version %d: %w", head.Version, version, ErrNewer)
	case head.Version != version:
		return fmt.Errorf("version %d; this pinbox reads version %d", head.Version, version)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// What digests and IDs are made of. An ID in containers/storage is the hexadecimal part
// of a SHA-256, and a link name is idLength (26) characters: drivers/overlay/overlay.go.
var (
	hexID    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	linkName = regexp.MustCompile(`^[A-Z0-9]{26}$`)
)

// ValidID says whether a string can be the ID of a layer, an image or a container. One
// that can be is safe as the name of a file.
func ValidID(id string) bool { return hexID.MatchString(id) }

// CheckDigest refuses what is not a SHA-256. The error names the field.
func CheckDigest(field string, d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("%s %q: %w", field, d, err)
	}
	if d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("%s %q: not a SHA-256", field, d)
	}
	return nil
}
