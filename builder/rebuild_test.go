package builder_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// A node that has the tar streams of a delta's layers makes the same store of them, byte for byte. It takes little
// more space for that than the store.
func TestRebuiltDeltaIsTheSame(t *testing.T) {
	t.Parallel()
	_, _, pins := series(t, 2)
	out, _ := delta(t, []string{full(t, pins[0]...)}, pins[1]...)
	want, err := os.ReadFile(filepath.Join(out, layout.DeltaStoreFile))
	if err != nil {
		t.Fatal(err)
	}
	documents, err := squashfs.OpenImage(bytes.NewReader(want), int64(len(want)))
	if err != nil {
		t.Fatal(err)
	}
	layers := map[digest.Digest]layout.Layer{}
	opened := layout.Open(documents)
	lock, lockErr := opened.Lock()
	d, deltaErr := opened.Delta()
	if err := errors.Join(lockErr, deltaErr, opened.Layers(func(l layout.Layer) error {
		layers[l.UncompressedDigest] = l
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	rebuilt, err := compose.Rebuild{
		Documents: documents, Lock: lock, Delta: d, TempDir: t.TempDir(), Workers: 1,
		Open: func(ctx context.Context, diffID digest.Digest, _ *squashfs.BlockCache) (io.ReadCloser, error) {
			// A reader of its own, since it is used in another goroutine.
			files, err := squashfs.OpenImage(bytes.NewReader(want), int64(len(want)))
			r, w := io.Pipe()
			go func() { w.CloseWithError(audit.WriteLayer(ctx, files, layers[diffID], w)) }()
			return r, err
		},
	}.Compose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rebuilt.Close()
	var got bytes.Buffer
	if err := rebuilt.Write(t.Context(), &got, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want[:got.Len()]) { // the hash tree follows
		t.Errorf("got another store of %d bytes, want the one of %d", got.Len(), len(want))
	}
}
