package fetch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime/fetch"
)

// smallFile starts a server that calls handle with the number of the request, from 0.
func smallFile(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request)) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle(int(requests.Add(1))-1, w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/SHA256SUMS", requests
}

// A small file is asked for again if the server fails, but not if it has none.
func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		handle   func(n int, w http.ResponseWriter, r *http.Request)
		want     error
		text     string
		requests int64
	}{
		"a good server": {func(_ int, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "sums") }, nil, "sums", 1},
		"an overloaded one": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, "sums")
		}, nil, "sums", 3},
		"a broken one": {func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fetch.ErrServer, "", 4},
		"not there":    {func(_ int, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, fs.ErrNotExist, "", 1},
		"denied": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, fs.ErrNotExist, "", 1},
		"endless": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				fmt.Fprint(w, strings.Repeat("x", 100))
			}
		}, fetch.ErrServer, "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := smallFile(t, c.handle)
			text, err := fetch.Text(t.Context(), url, 1000)
			if !errors.Is(err, c.want) || err == nil && string(text) != c.text {
				t.Errorf("got %q, %v, want %q, %v", text, err, c.text, c.want)
			}
			if got := requests.Load(); got != c.requests {
				t.Errorf("got %d requests, want %d", got, c.requests)
			}
		})
	}
}

// The size comes from servers with ranges and without, and from those that refuse HEAD.
func TestSize(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(n int, w http.ResponseWriter, r *http.Request)
		size   int64
		want   error
	}{
		"ranges": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("a store"))
		}, 7, nil},
		"no ranges, no HEAD": {func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusForbidden)
			}
			fmt.Fprint(w, "a store")
		}, 7, nil},
		"an unknown size": {func(_ int, w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "a store")
		}, 0, fetch.ErrServer},
		"not a range": {func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-0/*")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "a")
		}, 0, fetch.ErrServer},
		"nothing": {func(int, http.ResponseWriter, *http.Request) {}, 0, fetch.ErrServer},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := smallFile(t, c.handle)
			size, err := fetch.Size(t.Context(), url)
			if !errors.Is(err, c.want) || err == nil && size != c.size {
				t.Errorf("got %d, %v, want %d, %v", size, err, c.size, c.want)
			}
		})
	}
}
