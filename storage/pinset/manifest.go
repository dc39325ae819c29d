package pinset

import (
	"bytes"
	"fmt"
)

// maxParts is how many objects and lists a manifest, an index or a configuration may have: a parser takes hundreds of
// bytes for each, and 4 MiB have a million. The index of a multi-platform image has some 50, and annotations may
// contain some in text.
const maxParts = 1 << 16

// CheckParts returns an error for a document of an image that is not parsed, since it has too many parts.
func CheckParts(content []byte) error {
	if n := bytes.Count(content, []byte("{")) + bytes.Count(content, []byte("[")); n > maxParts {
		return fmt.Errorf("it has %d objects and lists, more than %d", n, maxParts)
	}
	return nil
}
