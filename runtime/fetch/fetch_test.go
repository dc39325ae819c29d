package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/fetch"
)

// size of the store, in bytes: several reads of the program.
const size = 3<<20 + 1000

// content is that of a store, and other is that of another one.
var (
	content = random()
	other   = bytes.Repeat([]byte("x"), size)
)

func random() []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it always returns nil
	return b
}

// begin is the first byte that a request asks for.
func begin(r *http.Request) (from int) {
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from) // 0 without a range
	return from
}

// serve starts a server that calls handle with the number of the request, from 0. It counts the bytes of the
// bodies.
func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request)) (
	o fetch.Options, requests *atomic.Int64,
) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle(int(requests.Add(1))-1, w, r)
	}))
	t.Cleanup(server.Close)
	return fetch.Options{
		URL: server.URL + "/store.squashfs", File: filepath.Join(t.TempDir(), "store.squashfs"), Size: size,
		Digest: digest.FromBytes(content), Stall: time.Second, Pause: time.Millisecond,
	}, requests
}

// good answers as any server of files.
func good(w http.ResponseWriter, r *http.Request, content []byte) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// reset sends some bytes from an offset of the content, and then closes the connection.
func reset(w http.ResponseWriter, from, bytes int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(content[from : from+bytes])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// A server that gives a byte now and then counts as one that gives nothing: or the fetch would never end.
func TestServerThatTrickles(t *testing.T) {
	o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte{1})
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond): // the trickle itself
			}
		}
	})
	o.Stall, o.Least = 50*time.Millisecond, 1<<20 // 52 kB, of which a busy machine gives even fewer
	_, err := fetch.Store(t.Context(), o)
	const want = "10 attempts with too few new bytes: the server sent too few bytes: "
	if n := requests.Load(); !errors.Is(err, fetch.ErrServer) || !strings.Contains(err.Error(), want) || n > 10 {
		t.Errorf("got %v after %d requests, want %v, %q, after at most 10", err, n, fetch.ErrServer, want)
	}
}

// faultyServers give the store in the end, after so many requests.
var faultyServers = map[string]struct {
	handle   func(n int, w http.ResponseWriter, r *http.Request)
	begun    []byte // that an earlier run has fetched
	requests int64
}{
	"a good one":                   {func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) }, nil, 1},
	"a good one, begun":            {func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) }, content[:1<<20], 1},
	"begun with another store":     {func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) }, other[:1<<20], 2},
	"begun with more than a store": {func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) }, append(other, 1), 1},
	"resets every 300 kB": {func(_ int, w http.ResponseWriter, r *http.Request) {
		if from := begin(r); from+300_000 < size {
			reset(w, from, 300_000)
		}
		good(w, r, content)
	}, nil, 11},
	"resets, without ranges": {func(n int, w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		if n < 3 {
			reset(w, 0, 300_000*(n+1))
		}
		good(w, r, content)
	}, nil, 4},
	"refuses at first": {func(n int, w http.ResponseWriter, r *http.Request) {
		if n < 9 {
			w.WriteHeader([]int{404, 503, 429}[n%3])
			return
		}
		good(w, r, content)
	}, nil, 10},
	"stalls": {func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 0 {
			_, _ = w.Write(content[:100_000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		good(w, r, content)
	}, nil, 2},
	"stalls before it answers": {func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 0 {
			<-r.Context().Done()
			return
		}
		good(w, r, content)
	}, nil, 2},
	"answers with another range": {func(n int, w http.ResponseWriter, r *http.Request) {
		if begin(r) > 0 {
			reset(w, begin(r)-7, 1000)
		}
		good(w, r, content)
	}, content[:1<<20], 2},
	"lies about the range": {func(n int, w http.ResponseWriter, r *http.Request) {
		if from := begin(r); from > 0 { // says what was asked for, and sends the beginning
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[:size-from])
			return
		}
		good(w, r, content)
	}, content[:1<<20], 2},
	"knows no end": {func(n int, w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content)
		for range 1000 {
			if _, err := w.Write(other); err != nil {
				return
			}
		}
	}, nil, 1},
	"refuses ranges": {func(n int, w http.ResponseWriter, r *http.Request) {
		if begin(r) > 0 {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		good(w, r, content)
	}, content[:1<<20], 2},
	"says gzip, and sends none": {func(n int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			w.WriteHeader(http.StatusNotAcceptable)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(content)
	}, nil, 1},
}

// A store is fetched from servers with all kinds of faults. No byte that arrived is requested again, if the
// server has ranges.
func TestFaultyServers(t *testing.T) {
	for name, c := range faultyServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, requests := serve(t, c.handle)
			if c.begun != nil {
				if err := os.WriteFile(o.File+".part", c.begun, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var noted []string
			o.Note = func(err error) { noted = append(noted, err.Error()) }
			found, err := fetch.Store(t.Context(), o)
			if err != nil || found {
				t.Fatalf("got found %v, %v, want neither\n%s", found, err, strings.Join(noted, "\n"))
			}
			if got, err := os.ReadFile(o.File); err != nil || !bytes.Equal(got, content) {
				t.Errorf("got %d bytes, %v, want the store", len(got), err)
			}
			if got := requests.Load(); got != c.requests {
				t.Errorf("got %d requests, want %d\n%s", got, c.requests, strings.Join(noted, "\n"))
			}
			if _, err := os.Stat(o.File + ".part"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v, want no partial file", err)
			}
			if found, err := fetch.Store(t.Context(), o); err != nil || !found || requests.Load() != c.requests {
				t.Errorf("again: got found %v, %v after %d requests, want found without another one", found, err, requests.Load())
			}
		})
	}
}

// Servers that never give the store end the fetch in bounded time, and nothing takes the name of the store. What
// arrived stays, unless it is of another one.
func TestServersWithoutTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		handle   func(n int, w http.ResponseWriter, r *http.Request)
		want     error
		text     string
		requests int64
		left     int64
	}{
		"not there": {
			func(_ int, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, fetch.ErrServer, "404 Not Found", 10, 0,
		},
		"another store": {
			func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, other) }, fetch.ErrDigest, "SHA-256", 1, 0,
		},
		"a shorter file": {
			func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content[:1000]) }, fetch.ErrServer,
			"the file has 1000 bytes, not the", 10, 0,
		},
		"resets at one place": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				reset(w, 0, 1<<20)
			}
			panic(http.ErrAbortHandler)
		}, fetch.ErrServer, "10 attempts with too few new bytes", 10, 1 << 20},
		"a page for everything": {func(_ int, w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<html>log in to the guest network</html>")
		}, fetch.ErrServer, "the file has 40 bytes", 10, 0},
		"another one at the end of redirects": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, fetch.ErrServer, "stopped after 10 redirects", 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o, requests := serve(t, c.handle)
			_, err := fetch.Store(t.Context(), o)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), o.URL) {
				t.Errorf("got %v, want %v with %q and the URL", err, c.want, c.text)
			}
			if got := requests.Load(); got != c.requests {
				t.Errorf("got %d requests, want %d", got, c.requests)
			}
			if _, err := os.Stat(o.File); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v, want no store", err)
			}
			if fi, err := os.Stat(o.File + ".part"); err != nil || fi.Size() != c.left {
				t.Errorf("got %v, %v, want %d bytes for the next run", fi, err, c.left)
			}
		})
	}
}

// A run that was stopped anywhere is continued by the next one; after the rename without a request, since the
// store is there and only its digest was not noted.
func TestInterruptedFetch(t *testing.T) {
	o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) })
	ctx, cancel := context.WithCancel(t.Context())
	o.Done = func(done, _ int64) {
		if done >= 1<<20 {
			cancel()
		}
	}
	if _, err := fetch.Store(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	o.Done = nil
	begun, err := os.Stat(o.File + ".part")
	if err != nil || begun.Size() < 1<<20 || begun.Size() == size {
		t.Fatalf("got %v, %v, want a part of the store", begun, err)
	}
	if _, err := fetch.Store(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(o.File + ".digest"); err != nil {
		t.Fatal(err)
	}
	before := requests.Load()
	if _, err := fetch.Store(t.Context(), o); err != nil || requests.Load() != before {
		t.Errorf("got %v after %d more requests, want the store without one", err, requests.Load()-before)
	}

	// The next release has another store, of this size or another.
	next := bytes.Repeat([]byte("next"), size/4)
	for _, next := range [][]byte{next, append(next, next...)} {
		o, _ := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, next) })
		o.File, o.Size, o.Digest = filepath.Join(filepath.Dir(o.File), "s"), int64(len(next)), digest.FromBytes(next)
		if err := os.WriteFile(o.File, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(o.File+".digest", []byte(digest.FromBytes(content).String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := fetch.Store(t.Context(), o); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(o.File); err != nil || !bytes.Equal(got, next) {
			t.Errorf("got %d bytes, %v, want the next store", len(got), err)
		}
	}
}

// A store that does not fit is not begun.
func TestNoSpace(t *testing.T) {
	o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {})
	o.Size = 1 << 60
	if _, err := fetch.Store(t.Context(), o); !errors.Is(err, fetch.ErrSpace) || requests.Load() > 0 {
		t.Errorf("got %v after %d requests, want %v without one", err, requests.Load(), fetch.ErrSpace)
	}
}
