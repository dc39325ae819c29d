package main

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
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
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	whole := r.Clone(r.Context())
	whole.Header.Del("Range")
	body := record(next, whole)
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

// A build that was cut off in the middle of a blob goes on from there, and whatever
// the registry or the disk make of that, the store is what it would have been.
func TestFetchGoesOnWhereItEnded(t *testing.T) {
	const size, half = 3 << 20, 2 << 20
	body := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(body) // never fails
	f := &flaky{}
	r := serve(t, damage("/blobs/", f.serve))
	sets := write(t, "sets.yaml",
		sample.Set("worker", push(t, r, image(t, "amd64", layer(t, sample.File("noise", string(body)))))))
	build := func(cache string, want int) []byte {
		t.Helper()
		f.served, f.asked = 0, nil
		out := filepath.Join(t.TempDir(), "out")
		code, _, stderr := pinbox(t.Context(), "build", "--set", sets, "--tls-verify=false", "--node-binary",
			fixtures.Program(t, nodePackage), "-o", out, "--cache-dir", cache)
		if code != want {
			t.Fatalf("exit code %d, want %d\n%s", code, want, stderr)
		}
		if code != cli.ExitOK {
			return nil
		}
		return mustRead(t, filepath.Join(out, "store.squashfs"))
	}
	want := build(t.TempDir(), cli.ExitOK)
	for name, test := range map[string]struct {
		change func(kept string)
		served int64  // at most, in the second run
		ranges string // that was asked for, at first
	}{
		"with ranges":     {func(string) {}, size - half + 1<<16, "bytes=2"},
		"without ranges":  {func(string) { f.ranges = "ignore" }, size + 1<<16, "bytes=2"},
		"refusing ranges": {func(string) { f.ranges = "refuse" }, size + 1<<16, "bytes=2"},
		"lost again":      {func(string) { f.cut, f.drops = 200_000, 2 }, size - half + 1<<16, "bytes=2"},
		"damaged": {
			func(kept string) {
				rewrite(t, kept, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
			}, size - half + size + 1<<16, "bytes=2",
		},
		"damaged header": {
			func(kept string) { rewrite(t, kept, func(b []byte) []byte { b[2] ^= 0xff; return b }) }, size - half + size + 1<<16,
			"bytes=2",
		},
		"too long": {
			func(kept string) { rewrite(t, kept, func(b []byte) []byte { return append(b, make([]byte, size)...) }) },
			size + 1<<16, "",
		},
		"nothing was kept": {func(kept string) { rewrite(t, kept, func([]byte) []byte { return nil }) }, size + 1<<16, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			f.cut = half
			build(cache, cli.ExitRegistry)
			kept, err := filepath.Glob(filepath.Join(cache, "layers/blobs-*/*"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("%v, %v", kept, err)
			}
			f.gone, f.cut = false, 0
			test.change(kept[0])
			if got := build(cache, cli.ExitOK); !bytes.Equal(got, want) {
				t.Error("the store is another")
			}
			if f.served > test.served || len(f.asked) == 0 || !strings.HasPrefix(f.asked[0], test.ranges) ||
				test.ranges == "" && f.asked[0] != "" {
				t.Errorf("%d bytes were served, at most %d need be; asked for %q", f.served, test.served, f.asked)
			}
			if kept, _ := filepath.Glob(filepath.Join(cache, "layers/blobs-*/*")); len(kept) > 0 {
				t.Errorf("left behind: %v", kept)
			}
			f.ranges = ""
		})
	}
}

func rewrite(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	if err := os.WriteFile(name, change(mustRead(t, name)), 0o600); err != nil {
		t.Fatal(err)
	}
}
