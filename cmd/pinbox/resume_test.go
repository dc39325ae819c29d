package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// flaky is a registry that loses the connection in the middle of a large blob.
type flaky struct {
	mu     sync.Mutex
	gone   bool   // nothing is served
	cut    int64  // of the next blob, behind which all is gone; 0 for none
	drops  int    // connections that are lost, once each, behind cut bytes
	ranges string // what is done about a range: "", "ignore" or "refuse"
	served int64  // bytes of large blobs
	asked  []string
}

func (f *flaky) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		w.WriteHeader(http.StatusForbidden) // for one that may pass, pinbox would wait and ask again
		return
	}
	full := r.Clone(r.Context())
	full.Header.Del("Range")
	body := record(next, full)
	if len(body) < 1<<20 {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(body) // the client may be gone
		return
	}
	f.asked = append(f.asked, r.Header.Get("Range"))
	switch {
	case r.Header.Get("Range") == "":
	case f.ranges == "ignore":
		r.Header.Del("Range")
	case f.ranges == "refuse":
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	limit := int64(1 << 40)
	if f.cut > 0 {
		if limit = f.cut; f.drops > 0 {
			f.drops--
		} else {
			f.gone = true
		}
		if f.drops == 0 && !f.gone {
			f.cut = 0
		}
	}
	cut := &cutWriter{ResponseWriter: w, left: limit}
	http.ServeContent(cut, r, "", time.Time{}, bytes.NewReader(body))
	f.served += limit - cut.left
	if cut.left == 0 {
		panic(http.ErrAbortHandler)
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); c.left == 0 && err == nil {
		c.ResponseWriter.(http.Flusher).Flush()
		err = http.ErrAbortHandler
	}
	return n, err
}

// resumed is a build that continues a fetch of the other half of a blob of size bytes.
type resumed struct {
	change func(f *flaky, partial string)
	served int64  // at most, in bytes
	ranges string // that the first request asks for
}

const resumedSize, resumedHalf = 3 << 20, 2 << 20

// resumes are by what happens to the partial blob, or to the registry.
func resumes(t *testing.T) map[string]resumed {
	t.Helper()
	const all, rest, header = resumedSize, resumedSize - resumedHalf, 1 << 16
	edit := func(change func([]byte) []byte) func(*flaky, string) {
		return func(_ *flaky, partial string) { rewrite(t, partial, change) }
	}
	return map[string]resumed{
		"with ranges":     {func(*flaky, string) {}, rest + header, "bytes=2"},
		"without ranges":  {func(f *flaky, _ string) { f.ranges = "ignore" }, all + header, "bytes=2"},
		"refusing ranges": {func(f *flaky, _ string) { f.ranges = "refuse" }, all + header, "bytes=2"},
		"lost again":      {func(f *flaky, _ string) { f.cut, f.drops = 200_000, 2 }, rest + header, "bytes=2"},
		"damaged": {
			edit(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), rest + all + header, "bytes=2",
		},
		"damaged header":   {edit(func(b []byte) []byte { b[2] ^= 0xff; return b }), rest + all + header, "bytes=2"},
		"too long":         {edit(func(b []byte) []byte { return append(b, make([]byte, all)...) }), all + header, ""},
		"nothing was kept": {edit(func([]byte) []byte { return nil }), all + header, ""},
	}
}

// A build that was cut off in the middle of a blob continues from there. Whatever the registry or
// the disk does meanwhile, the store has the same bytes.
func TestFetchContinuesWhereItEnded(t *testing.T) {
	t.Parallel()
	for name, test := range resumes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flaky{}
			r := serve(t, damage("/blobs/", f.serve))
			pin := push(t, r, image(t, "amd64", layer(t, sample.File("noise", string(randomBytes(resumedSize))))))
			resumable{f, write(t, "sets.yaml", sample.Set("worker", pin))}.resume(t, test)
		})
	}
}

// So does one of an OCI artifact, whose blobs are in the store as they are.
func TestFetchOfAnArtifactContinuesWhereItEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with ranges", "damaged"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flaky{}
			r := serve(t, damage("/blobs/", f.serve))
			pin, err := r.PushArtifact(t.Context(), "site/model", []string{"noise"}, randomBytes(resumedSize))
			if err != nil {
				t.Fatal(err)
			}
			resumable{f, write(t, "sets.yaml", sample.Set("worker", pin))}.resume(t, resumes(t)[name])
		})
	}
}

// resumable is a build of sets with one large blob.
type resumable struct {
	*flaky
	sets string
}

// build returns the store, if there is one.
func (b resumable) build(t *testing.T, cache string, want int) []byte {
	t.Helper()
	b.served, b.asked = 0, nil
	out := filepath.Join(t.TempDir(), "out")
	args := []string{"build", "--set", b.sets, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "-o", out,
		"--cache-dir", cache}
	code, _, stderr := pinbox(t.Context(), args...)
	if code != want {
		t.Fatalf("got exit code %d, want %d\n%s", code, want, stderr)
	}
	if code != fault.OK {
		return nil
	}
	return mustRead(t, filepath.Join(out, "store.squashfs"))
}

// resume wants the store of an undisturbed build from one that was cut off in the middle of the blob, and made again.
func (b resumable) resume(t *testing.T, test resumed) {
	t.Helper()
	want := b.build(t, t.TempDir(), fault.OK)
	cache := t.TempDir()
	b.cut = resumedHalf
	b.build(t, cache, fault.Registry)
	partial := partialBlobs(t, cache)
	if len(partial) != 1 {
		t.Fatalf("got the partial blobs %v, want one", partial)
	}
	b.gone, b.cut = false, 0
	test.change(b.flaky, partial[0])
	if got := b.build(t, cache, fault.OK); !bytes.Equal(got, want) {
		t.Error("got another store, want the same bytes")
	}
	if b.served > test.served {
		t.Errorf("got %d bytes served, want %d at most", b.served, test.served)
	}
	if len(b.asked) == 0 || !strings.HasPrefix(b.asked[0], test.ranges) || test.ranges == "" && b.asked[0] != "" {
		t.Errorf("got requests for the ranges %q, want the first for %q", b.asked, test.ranges)
	}
	if partial := partialBlobs(t, cache); len(partial) > 0 {
		t.Errorf("got the partial blobs %v after the build, want none", partial)
	}
}

// partialBlobs are the files of blobs in a cache that are not fetched completely.
func partialBlobs(t *testing.T, cache string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(cache, "layers/partial-blobs/*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func rewrite(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	if err := os.WriteFile(name, change(mustRead(t, name)), 0o600); err != nil {
		t.Fatal(err)
	}
}
