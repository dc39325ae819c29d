package pinset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
)

const (
	// MaxDocumentBytes is the size of the largest lock or description of a delta, in bytes. The lock of 2,000 images
	// with 50 layers each, of 400 bytes, has 40 MiB.
	MaxDocumentBytes = 64 << 20
	// MaxElementBytes is the size of the largest element of a list, in bytes: an image with 500 layers, the most that
	// an overlay has (maxDepth in containers/storage, drivers/overlay), has 200 KiB, a set with
	// 500 images (maxImages) of 447 characters (the schema of PinnedImageSet) 220 KiB, and an OCI artifact of 4,000 files
	// 800 KiB. In memory, `{},` is up to 50 times larger.
	MaxElementBytes = 1 << 20
)

// ErrLargeLock is the error for a lock that no node would read.
var ErrLargeLock = fault.New(fault.Input, "lock is larger than a node reads",
	"make two releases of it, under two names of appliances; docs/format.md has all limits")

// checkElement returns an error for an element of a lock of so many bytes that a reader refuses.
func checkElement(size int, format string, args ...any) error {
	if size <= MaxElementBytes {
		return nil
	}
	return fmt.Errorf("%s: %w: its entry has %d KiB, and the limit is %d", fmt.Sprintf(format, args...), ErrLargeLock,
		size>>10, MaxElementBytes>>10)
}

// stream reads a JSON object field by field, and a list in it element by element. So it needs memory
// only for one element and what the caller keeps of others, and hostile documents, such as a list of
// 20 million empty objects, fail at their first element.
type stream struct {
	dec       *json.Decoder
	in        io.Reader
	read, end int64 // bytes that were read, and that may be read
	failed    error
}

// decodeObject reads an object whose first field is the version, and calls field for each of the others,
// which reads the value. Another version is ErrNewer or ErrOlder.
func decodeObject(r io.Reader, version int, field func(name string, s *stream) error) error {
	s := &stream{in: r}
	s.dec = json.NewDecoder(s)
	s.dec.DisallowUnknownFields()
	err := s.object(version, field)
	if s.failed != nil { // not the error that the decoder makes of it
		err = s.failed
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Read gives the decoder no more bytes than are allowed.
func (s *stream) Read(p []byte) (int, error) {
	if s.read == s.end {
		s.failed = fmt.Errorf("%w: more than %d MiB, or %d KiB in an element of a list", document.ErrTooLarge,
			MaxDocumentBytes>>20, MaxElementBytes>>10)
		return 0, s.failed
	}
	n, err := s.in.Read(p[:min(int64(len(p)), s.end-s.read)])
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// token reads the next token. The decoder may then read one more element.
func (s *stream) token() (json.Token, error) {
	s.end = min(MaxDocumentBytes, s.dec.InputOffset()+MaxElementBytes)
	return s.dec.Token()
}

// more reports whether the object or list has another element, and lets the decoder read it.
func (s *stream) more() bool {
	s.end = min(MaxDocumentBytes, s.dec.InputOffset()+MaxElementBytes)
	return s.dec.More()
}

func (s *stream) object(version int, field func(string, *stream) error) error {
	start, err := s.token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return errors.New("invalid: not an object")
	}
	seen := map[string]bool{}
	for s.more() {
		token, err := s.token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder accepts no other token
		switch {
		case seen[name]:
			return fmt.Errorf("field %q: repeated", name)
		case len(seen) == 0:
			err = s.version(name, version)
		default:
			err = field(name, s)
		}
		if err != nil {
			return err
		}
		seen[name] = true
	}
	if len(seen) == 0 {
		return s.version("", version)
	}
	if _, err := s.token(); err != nil {
		return err
	}
	if _, err := s.token(); !errors.Is(err, io.EOF) {
		return errors.New("invalid character after top-level value")
	}
	return nil
}

// version reads the version, without which the other fields have no meaning.
func (s *stream) version(name string, version int) error {
	if name != "version" {
		return noVersion(version)
	}
	got := 0
	if err := s.value(name, &got); err != nil {
		return err
	}
	return CheckVersion(got, version)
}

// value reads the value of a field.
func (s *stream) value(name string, into any) error {
	s.more()
	if err := s.dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// list reads a list, and checks each element before it reads the next. share is called with each element
// that is kept, to let it have in common with earlier ones what is equal; it may be nil.
func list[T interface{ validate() error }](s *stream, name string, into *[]T, share func(*T)) error {
	start, err := s.token()
	if err != nil || start == nil { // null
		return err
	}
	if start != json.Delim('[') {
		return fmt.Errorf("%s: not a list", name)
	}
	*into = []T{}
	for s.more() {
		var element T
		err := s.dec.Decode(&element)
		if err == nil {
			err = element.validate()
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", name, len(*into), err)
		}
		if share != nil {
			share(&element)
		}
		*into = append(*into, element)
	}
	_, err = s.token()
	return err
}

func unknownField(name string) error { return fmt.Errorf("json: unknown field %q", name) }
