package storage

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/pinset"
)

// After an interrupt no further image is begun. A bug was that each of a hundred thousand failed first, for a minute.
func TestInterruptBeginsNoImage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var begun atomic.Int32
	_, err := each(ctx, 2, make([]int, 1000), func(ctx context.Context, _ int) (int, error) {
		begun.Add(1)
		cancel()
		return 0, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || begun.Load() > 3 { // two at once, and one that waited for its turn
		t.Errorf("got %v after %d, want %v after 3 at most", err, begun.Load(), context.Canceled)
	}
}

// A registry whose answer does not end is given up after a few MiB. A bug was that the library read the body of an
// error whole, before it has a manifest, until no memory was left.
func TestAnswersWithoutEnd(t *testing.T) {
	const most = 1 << 30 // what the server would send
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	for range 1 << 10 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed := buf.Bytes()
	for name, test := range map[string]struct {
		path   string
		status int
		packed bool
		want   error
	}{
		"a manifest":                        {"/manifests/", http.StatusOK, false, ErrRegistry},
		"a compressed manifest":             {"/manifests/", http.StatusOK, true, ErrRegistry},
		"an error for a manifest":           {"/manifests/", http.StatusBadRequest, false, download.ErrTooLong},
		"a compressed error for a manifest": {"/manifests/", http.StatusBadRequest, true, download.ErrTooLong},
		"an error for all":                  {"/v2/", http.StatusBadRequest, false, download.ErrTooLong},
		"a token":                           {"/token", http.StatusOK, false, ErrRegistry},
		"a compressed token":                {"/token", http.StatusOK, true, ErrRegistry},
		"an error for a token":              {"/token", http.StatusForbidden, false, ErrUnauthorized},
	} {
		for scheme, listen := range map[string]func(http.Handler) *httptest.Server{
			"http": httptest.NewServer, "https": httptest.NewTLSServer,
		} {
			t.Run(name+"/"+scheme, func(t *testing.T) {
				ended := make(chan bool, 100)
				server := listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.Contains(r.URL.Path, test.path) {
						if strings.HasPrefix(test.path, "/token") {
							w.Header().Set("WWW-Authenticate", `Bearer realm="`+scheme+"://"+r.Host+`/token",service="x"`)
							w.WriteHeader(http.StatusUnauthorized)
						}
						return
					}
					chunk, sent := []byte(strings.Repeat("x", 1<<20)), 0
					if test.packed {
						w.Header().Set("Content-Encoding", "gzip")
						chunk = packed // members of a stream may follow each other
					}
					w.WriteHeader(test.status)
					for ; sent < most; sent += len(chunk) {
						if _, err := w.Write(chunk); err != nil {
							break
						}
					}
					ended <- sent < most
				}))
				defer server.Close()
				_, host, _ := strings.Cut(server.URL, "://")
				client, err := NewClient(Access{Insecure: []string{host}, InsecurePolicy: true}, "linux/amd64")
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				_, err = client.ResolveReferences(t.Context(), []pinset.Reference{{Repository: host + "/a/b", Tag: "1"}}, nil)
				if !errors.Is(err, test.want) || len(err.Error()) > 10<<10 {
					t.Errorf("got %.2000v, want %v", err, test.want)
				}
				if !<-ended {
					t.Errorf("the answer was read to its end, %d bytes", most)
				}
			})
		}
	}
}
