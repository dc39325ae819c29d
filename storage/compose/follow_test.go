package compose_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/compose"
)

// Who unpacks a layer gets all of it, or not all of the header of the entry that is too large.
func TestReadLayerWithinLimits(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, name := range []string{"a/b/small", "large"} {
		content := bytes.Repeat([]byte("x"), 100*len(name))
		if err := errors.Join(tw.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}),
			func() error { _, err := tw.Write(content); return err }()); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	b.WriteString("behind the end")
	layer := b.Bytes()
	for name, c := range map[string]struct {
		limits compose.Limits
		want   error
	}{
		"none":          {compose.Limits{}, nil},
		"just enough":   {compose.Limits{Files: 4, Size: int64(len(layer))}, nil},
		"a file less":   {compose.Limits{Files: 3}, compose.ErrTooManyFiles},
		"a smaller one": {compose.Limits{Size: 1399}, compose.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			_, err := compose.ReadLayer(t.Context(), compose.Blob{
				DiffID: digest.FromBytes(layer), Limits: c.limits,
				Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil },
			}, func(r io.Reader) (err error) {
				got, err = io.ReadAll(r)
				return err
			})
			if !errors.Is(err, c.want) || c.want == nil && !bytes.Equal(got, layer) {
				t.Errorf("got %d bytes, %v, want %d, %v", len(got), err, len(layer), c.want)
			}
			if at := bytes.Index(layer, []byte("large")); c.want != nil && len(got) > at {
				t.Errorf("got %d bytes before the error, want less than %d", len(got), at)
			}
		})
	}
}
