package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
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

// network is one within this process, so that time passes in a bubble of synctest. It has one server.
type network struct{ connections chan net.Conn }

func (n network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.connections <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (n network) Accept() (net.Conn, error) {
	if c, ok := <-n.connections; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (n network) Close() error { close(n.connections); return nil }

// Addr implements net.Listener.
func (n network) Addr() net.Addr { return &net.TCPAddr{} }

// listen starts a server that calls handle with the number of the request, from 0. It is for a bubble.
func listen(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request)) (o Options, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	n := network{make(chan net.Conn)}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle(int(requests.Add(1))-1, w, r)
	})}
	go server.Serve(n)
	t.Cleanup(func() { server.Close() })
	return Options{dial: n.dial}, requests
}

// serve starts a server of a store.
func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request)) (
	s Store, file string, o Options, requests *atomic.Int64,
) {
	t.Helper()
	o, requests = listen(t, handle)
	s = Store{Origin: "http://HOST/store.squashfs", Size: size, Digest: digest.FromBytes(content)}
	return s, filepath.Join(t.TempDir(), "store.squashfs"), o, requests
}

// limit is how long a server is asked while nothing arrives.
const limit = 5 * time.Minute

// checkPatience checks that so many requests, about, were made, and that they have ended with the patience.
func checkPatience(t *testing.T, start time.Time, requests, want int64) {
	t.Helper()
	took := time.Since(start)
	if requests < want*4/5 || requests > want*6/5 || took < limit || took > limit+30*time.Second {
		t.Errorf("got %d requests in %v, want about %d in %v", requests, took, want, limit)
	}
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
	synctest.Test(t, func(t *testing.T) {
		s, file, o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
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
		o.Least = 1 << 10
		start := time.Now()
		_, err := s.Fetch(t.Context(), file, o)
		const want = "connection stalled: HOST sends fewer than 1024 bytes per second, for 1m0s"
		if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %v, %q", err, ErrServer, want)
		}
		checkPatience(t, start, requests.Load(), 5)
	})
}

// A server that says when it wants the next request gets it then, and what it asks for does not count.
func TestServerThatAsksForTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, file, o, requests := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n < 2 {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			good(w, r, content)
		})
		start := time.Now()
		_, err := s.Fetch(t.Context(), file, o)
		if took := time.Since(start); err != nil || requests.Load() != 3 || took < 20*time.Minute || took > 21*time.Minute {
			t.Errorf("got %v after %d requests in %v, want the store by the third one, after 20 minutes", err, requests.Load(), took)
		}
	})
}

// A server that starts later than the node is waited for. One with a name that somebody has typed may not exist.
func TestServerThatStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, file, o, _ := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) })
		start, dialled, dial := time.Now(), 0, o.dial
		o.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialled++; time.Since(start) < 4*time.Minute {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return dial(ctx, network, address)
		}
		if _, err := Find(t.Context(), []string{"https://HOST/"}, o); !errors.Is(err, ErrServer) || dialled != 3 {
			t.Errorf("a name: got %v after %d attempts, want %v after 3", err, dialled, ErrServer)
		}
		if _, err := s.Fetch(t.Context(), file, o); err != nil || dialled < 18 || dialled > 26 {
			t.Errorf("the first boot: got %v after %d attempts, want the store after about 22", err, dialled)
		}
	})
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
			synctest.Test(t, func(t *testing.T) { testFaultyServer(t, c.handle, c.begun, c.requests) })
		})
	}
}

func testFaultyServer(
	t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request), begun []byte, want int64,
) {
	s, file, o, requests := serve(t, handle)
	if begun != nil {
		if err := os.WriteFile(file+".part", begun, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var noted []string
	o.Note = func(line string) { noted = append(noted, line) }
	found, err := s.Fetch(t.Context(), file, o)
	if err != nil || found {
		t.Fatalf("got found %v, %v, want neither\n%s", found, err, strings.Join(noted, "\n"))
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %d bytes, %v, want the store", len(got), err)
	}
	if got := requests.Load(); got != want {
		t.Errorf("got %d requests, want %d\n%s", got, want, strings.Join(noted, "\n"))
	}
	if _, err := os.Stat(file + ".part"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no partial file", err)
	}
	if found, err := s.Fetch(t.Context(), file, o); err != nil || !found || requests.Load() != want {
		t.Errorf("again: got found %v, %v after %d requests, want found without another one", found, err, requests.Load())
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
			func(_ int, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, ErrServer, "404 Not Found", 24, 0,
		},
		"another store": {
			func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, other) }, ErrChanged, "SHA-256", 1, 0,
		},
		"a shorter file": {
			func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content[:1000]) }, ErrServer,
			"the file has 1000 bytes, not the", 24, 0,
		},
		"resets at one place": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				reset(w, 0, 1<<20)
			}
			panic(http.ErrAbortHandler)
		}, ErrServer, "times, and nothing has arrived: ", 24, 1 << 20},
		"a page for everything": {func(_ int, w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<html>log in to the guest network</html>")
		}, ErrServer, "the file has 40 bytes", 24, 0},
		"another one at the end of redirects": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, ErrServer, "stopped after 10 redirects", 240, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, file, o, requests := serve(t, c.handle)
				start := time.Now()
				_, err := s.Fetch(t.Context(), file, o)
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), s.Origin) {
					t.Errorf("got %v, want %v with %q and the URL", err, c.want, c.text)
				}
				if got := requests.Load(); c.requests > 10 {
					checkPatience(t, start, got, c.requests)
				} else if got != c.requests {
					t.Errorf("got %d requests, want %d", got, c.requests)
				}
				if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("got %v, want no store", err)
				}
				if fi, err := os.Stat(file + ".part"); err != nil || fi.Size() != c.left {
					t.Errorf("got %v, %v, want %d bytes for the next run", fi, err, c.left)
				}
			})
		})
	}
}

// A run that was stopped anywhere is continued by the next one; after the rename without a request, since the
// store is there and only its digest was not noted.
func TestInterruptedFetch(t *testing.T) { synctest.Test(t, testInterruptedFetch) }

func testInterruptedFetch(t *testing.T) {
	s, file, o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) })
	ctx, cancel := context.WithCancel(t.Context())
	o.Done = func(done, _ int64) {
		if done >= 1<<20 {
			cancel()
		}
	}
	if _, err := s.Fetch(ctx, file, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	o.Done = nil
	begun, err := os.Stat(file + ".part")
	if err != nil || begun.Size() < 1<<20 || begun.Size() == size {
		t.Fatalf("got %v, %v, want a part of the store", begun, err)
	}
	if _, err := s.Fetch(t.Context(), file, o); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file + ".digest"); err != nil {
		t.Fatal(err)
	}
	before := requests.Load()
	if _, err := s.Fetch(t.Context(), file, o); err != nil || requests.Load() != before {
		t.Errorf("got %v after %d more requests, want the store without one", err, requests.Load()-before)
	}

	// The next release has another store, of this size or another.
	next := bytes.Repeat([]byte("next"), size/4)
	for _, next := range [][]byte{next, append(next, next...)} {
		s, _, o, _ := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, next) })
		s.Size, s.Digest = int64(len(next)), digest.FromBytes(next)
		file := filepath.Join(filepath.Dir(file), "s")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+".digest", []byte(digest.FromBytes(content).String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fetch(t.Context(), file, o); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, next) {
			t.Errorf("got %d bytes, %v, want the next store", len(got), err)
		}
	}
}

// A store that does not fit is not begun.
func TestNoSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, file, o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {})
		s.Size = 1 << 60
		if _, err := s.Fetch(t.Context(), file, o); !errors.Is(err, ErrSpace) || requests.Load() > 0 {
			t.Errorf("got %v after %d requests, want %v without one", err, requests.Load(), ErrSpace)
		}
	})
}
