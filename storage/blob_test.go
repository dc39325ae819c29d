package storage

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	imgtypes "go.podman.io/image/v5/types"
)

// A blob must have the size of its descriptor, even if its digest matches: unpacking and messages
// rely on the size.
func TestSizesOfBlobs(t *testing.T) {
	const content = "content"
	for name, c := range map[string]struct {
		size int64
		want error
	}{
		"its size":     {7, nil},
		"unknown size": {-1, nil},
		"one too few":  {6, ErrDigest},
		"one too many": {8, ErrDigest},
		"none":         {0, ErrDigest},
	} {
		t.Run(name, func(t *testing.T) {
			s, want := imageSource{explain: classify}, imgtypes.BlobInfo{Digest: digest.FromString(content), Size: c.size}
			v := s.verify(t.Context(), io.NopCloser(strings.NewReader(content)), want)
			got, err := io.ReadAll(v)
			if string(got) != content || !errors.Is(err, c.want) {
				t.Errorf("got %q, %v, want %q, %v", got, err, content, c.want)
			}
			if _, err := v.Read(make([]byte, 1)); c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("a second read: got %v, want %v", err, c.want)
			}
		})
	}
}
