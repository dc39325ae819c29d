package neighbour

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
)

// DefaultPort is where nodes offer their files.
const DefaultPort = "9751"

// filesPath is the path of all files.
const filesPath = "/v1/files/"

// The headers of an answer, and uploadsHeader also of a request: the neighbour is to answer only if it serves no more
// uploads than this.
const (
	bytesHeader   = "Pinbox-Bytes"
	stateHeader   = "Pinbox-State"
	sourceHeader  = "Pinbox-Source"
	uploadsHeader = "Pinbox-Uploads"
)

// The values of stateHeader.
const (
	stateComplete = "complete"
	stateFetching = "fetching"
)

// parsePath returns the digest in a path; "" for any other path.
func parsePath(path string) digest.Digest {
	name, ok := strings.CutPrefix(path, filesPath)
	if id := digest.Digest(name); ok && id.Validate() == nil && id.Algorithm() == digest.SHA256 {
		return id
	}
	return ""
}

// parseRange returns the bytes that a request asks for: from, and to, which is behind the last. It takes the forms
// "bytes=1-" and "bytes=1-2", and no Range.
func parseRange(r *http.Request, size int64) (from, to int64, ok bool) {
	text := r.Header.Get("Range")
	if text == "" {
		return 0, size, true
	}
	text, ok = strings.CutPrefix(text, "bytes=")
	first, last, two := strings.Cut(text, "-")
	if !ok || !two {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from < 0 || from >= size {
		return 0, 0, false
	}
	if last == "" {
		return from, size, true
	}
	to, err = strconv.ParseInt(last, 10, 64)
	if err != nil || to < from {
		return 0, 0, false
	}
	return from, min(to, size-1) + 1, true
}
