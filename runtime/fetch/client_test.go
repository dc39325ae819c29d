package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
		"a broken one": {func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ErrServer, "", 24},
		"not there":    {func(_ int, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, fs.ErrNotExist, "", 1},
		"denied": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, fs.ErrNotExist, "", 1},
		"endless": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				fmt.Fprint(w, strings.Repeat("x", 100))
			}
		}, ErrServer, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, requests := listen(t, c.handle)
				start := time.Now()
				text, err := newClient(o, false).text(t.Context(), "http://HOST/SHA256SUMS", 1000)
				if !errors.Is(err, c.want) || err == nil && string(text) != c.text {
					t.Errorf("got %q, %v, want %q, %v", text, err, c.text, c.want)
				}
				if got := requests.Load(); c.requests > 10 {
					checkPatience(t, start, got, c.requests)
				} else if got != c.requests {
					t.Errorf("got %d requests, want %d", got, c.requests)
				}
			})
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
		}, 0, ErrServer},
		"not a range": {func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-0/*")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "a")
		}, 0, ErrServer},
		"nothing": {func(int, http.ResponseWriter, *http.Request) {}, 0, ErrServer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, _ := listen(t, c.handle)
				size, err := newClient(o, false).size(t.Context(), "http://HOST/store.squashfs")
				if !errors.Is(err, c.want) || err == nil && size != c.size {
					t.Errorf("got %d, %v, want %d, %v", size, err, c.size, c.want)
				}
			})
		})
	}
}
