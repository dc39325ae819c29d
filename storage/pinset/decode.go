package pinset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
)

// Errors for documents with a later or an earlier version than this program reads.
var (
	ErrNewer = fault.New(fault.Input, "a newer pinbox made it, so update this one",
		"use the pinbox that made it, or a later one")
	ErrOlder = fault.New(fault.Input, "an older pinbox made it, so make it again",
		"make it again with this pinbox, or use the pinbox that made it")
)

// OtherVersion reports whether an error is about a document that another version of pinbox made: it is not damaged.
func OtherVersion(err error) bool { return errors.Is(err, ErrNewer) || errors.Is(err, ErrOlder) }

// Decode reads a JSON document of this machine with a field "version", up to the size limit of
// document.ReadAll. It checks the version before it reads any other field, since a newer
// document may have other fields; another version is ErrNewer or ErrOlder. Unknown fields are errors.
func Decode(r io.Reader, version int, into any) error {
	text, err := document.ReadAll(r)
	if err != nil {
		return err
	}
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Version == nil {
		return noVersion(version)
	}
	if err := CheckVersion(*head.Version, version); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// CheckVersion returns ErrNewer or ErrOlder unless a document has the version that this program reads.
func CheckVersion(got, want int) error {
	switch {
	case got > want:
		return fmt.Errorf("version %d; this pinbox reads version %d: %w", got, want, ErrNewer)
	case got < want:
		return fmt.Errorf("version %d; this pinbox reads version %d: %w", got, want, ErrOlder)
	}
	return nil
}

// noVersion is the error for a document that no version of pinbox made.
func noVersion(want int) error { return fmt.Errorf("no version; this pinbox reads version %d", want) }

// The form of IDs. An ID in containers/storage is the hexadecimal part of a SHA-256, and a
// link name has idLength (26) characters: drivers/overlay/overlay.go.
var (
	hexID    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	linkName = regexp.MustCompile(`^[A-Z0-9]{26}$`)
)

// ValidID reports whether a string can be the ID of a layer, an image or a container. A valid
// ID is safe as the name of a file.
func ValidID(id string) bool { return hexID.MatchString(id) }

// CheckDigest returns an error, which names the field, unless the digest is a SHA-256.
func CheckDigest(field string, d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("%s %q: %w", field, d, err)
	}
	if d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("%s %q: not a SHA-256", field, d)
	}
	return nil
}

// Printable reports whether a text is free of control characters, which would change a terminal.
func Printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// checkPrintable returns an error, which names the field, if a text is not printable.
func checkPrintable(field string, texts ...string) error {
	for _, text := range texts {
		if !Printable(text) {
			return fmt.Errorf("%s %q: control characters", field, text)
		}
	}
	return nil
}
