package builder_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
)

// losing serves a blob until so many bytes are sent, and then loses all connections.
type losing struct {
	blob   []byte
	digest digest.Digest
	left   atomic.Int64
}

func (l *losing) answer(w http.ResponseWriter, r *http.Request) bool {
	if !strings.Contains(r.URL.Path, "/blobs/") {
		return false
	}
	if l.left.Load() <= 0 {
		panic(http.ErrAbortHandler)
	}
	if !strings.HasSuffix(r.URL.Path, l.digest.String()) {
		return false
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(losingWriter{w, l}, r, "", time.Time{}, bytes.NewReader(l.blob))
	return true
}

type losingWriter struct {
	http.ResponseWriter
	*losing
}

func (l losingWriter) Write(p []byte) (int, error) {
	if l.left.Add(-int64(len(p))) < 0 {
		panic(http.ErrAbortHandler)
	}
	return l.ResponseWriter.Write(p)
}

// A build whose registry is lost in the middle of a large layer, of which several parts are fetched at a time,
// keeps what it has. The next one asks for the rest: what is fetched twice is what was under way.
func TestInterruptedBuildFetchesTheRest(t *testing.T) {
	t.Parallel()
	var access fixtures.Access
	registry, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	stream, err := sample.Tar(sample.File("model", string(make([]byte, 96<<20))))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := sample.NewLayer(stream, types.OCIUncompressedLayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := sample.Image("amd64", false, layer)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.Push(t.Context(), "site/app", img)
	if err != nil {
		t.Fatal(err)
	}
	l := &losing{blob: stream, digest: digest.FromBytes(stream)}
	access.Fault(l.answer)
	o := options(t, sample.Set("worker", pin))
	o.Cache.Dir = t.TempDir()
	o.Access.StallTimeout = 10 * time.Second
	l.left.Store(90 << 20)
	access.Take()
	if _, err := builder.Build(t.Context(), o); !errors.Is(err, storage.ErrRegistry) {
		t.Fatalf("got %v, want a registry that cannot be used", err)
	}
	first, ranges := sent(access.Take())
	l.left.Store(1 << 40)
	appliance.Build(t, o)
	second, _ := sent(access.Take())
	const underWay = 9 * 4 << 20 // parts of 4 MiB: that which is read, and eight others
	if twice := first + second - int64(len(stream)); twice > underWay || ranges < 9 {
		t.Errorf("got %d bytes by %d requests, and then %d, of %d: want at most %d twice", first, ranges, second, len(stream),
			underWay)
	}
}

// sent returns the bytes of the answers to requests for blobs, and the number of these requests.
func sent(requests []fixtures.Request) (bytes int64, n int) {
	for _, r := range fixtures.Blobs(requests) {
		bytes += r.Bytes
		n++
	}
	return bytes, n
}
