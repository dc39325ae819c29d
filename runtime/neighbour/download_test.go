package neighbour_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime/neighbour"
)

const size = 3 << 20

// hostile starts a neighbour that answers as it likes. Unless it answers HEAD, too, it says that it has the whole file.
func (s *site) hostile(answer http.HandlerFunc) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Pinbox-State", "complete")
		w.Header().Set("Pinbox-Bytes", strconv.Itoa(len(s.content)))
		w.Header().Set("Pinbox-Uploads", "0")
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", strconv.Itoa(len(s.content)))
		}
		answer(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	s.t.Cleanup(server.Close)
	s.change = func(o *neighbour.Options) {
		o.Neighbours = append([]string{server.Listener.Addr().String()}, o.Neighbours...)
		o.Patience, o.Stall, o.Settle = time.Second, time.Second, 50*time.Millisecond
	}
}

// part says that an answer is the part that was asked for.
func (s *site) part(w http.ResponseWriter, r *http.Request) (from, to int) {
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to) // the test fails without
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(s.content)))
	w.WriteHeader(http.StatusPartialContent)
	return from, to + 1
}

// misdeed is what a neighbour does, and what is noted about it.
type misdeed struct {
	answer func(s *site, w http.ResponseWriter, r *http.Request)
	note   string
}

// wrongBytes are neighbours that say that they have the file, and give something else.
var wrongBytes = map[string]misdeed{
	"it gives other bytes": {func(s *site, w http.ResponseWriter, r *http.Request) {
		from, to := s.part(w, r)
		_, _ = w.Write(bytes.Repeat([]byte("x"), to-from))
	}, "something else"},
	"it changes a byte": {func(s *site, w http.ResponseWriter, r *http.Request) {
		from, to := s.part(w, r)
		part := bytes.Clone(s.content[from:to])
		part[len(part)/2] ^= 1
		_, _ = w.Write(part)
	}, "something else"},
	"it gives 100 GB": {func(s *site, w http.ResponseWriter, r *http.Request) {
		s.part(w, r)
		for range 100 << 10 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		s.t.Error("got all of it read, want the size of the file at most")
	}, "something else"},
	"it gives another part": {func(_ *site, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-99999999999/100000000000")
		w.WriteHeader(http.StatusPartialContent)
	}, "something else"},
	"it answers without a part": {func(s *site, w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(s.content)
	}, "something else"},
	"it stalls": {func(s *site, w http.ResponseWriter, r *http.Request) {
		s.part(w, r)
		_, _ = w.Write(s.content[:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, "sends nothing"},
	"it never answers": {func(_ *site, _ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}, "sends nothing"},
	"it ends early": {func(s *site, w http.ResponseWriter, r *http.Request) {
		from, _ := s.part(w, r)
		_, _ = w.Write(s.content[from : from+1])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "ends after a few bytes"},
	"it gives nothing": {func(s *site, w http.ResponseWriter, r *http.Request) {
		s.part(w, r)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "ends after a few bytes"},
	"it redirects": {func(s *site, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.elsewhere, http.StatusFound)
	}, "something else"},
	"it is always busy": {func(_ *site, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}, ""},
}

// falseClaims are neighbours that say something about the file that is not so.
var falseClaims = map[string]misdeed{
	"the file has 100 GB": {func(_ *site, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000000000")
		w.WriteHeader(http.StatusOK)
	}, ""},
	"it reads from the source": {func(_ *site, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Pinbox-State", "fetching")
		w.Header().Set("Pinbox-Bytes", "0")
		w.Header().Set("Pinbox-Source", "reads")
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, ""},
	"it has negative bytes": {func(_ *site, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Pinbox-State", "fetching")
		w.Header().Set("Pinbox-Bytes", "-9223372036854775808")
	}, ""},
	"endless headers": {func(_ *site, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 1<<20))
	}, ""},
}

// Whatever a neighbour does, the node has the right file soon, and takes it from the source once.
func TestHostileNeighbours(t *testing.T) {
	for name, m := range wrongBytes {
		t.Run(name, func(t *testing.T) {
			checkHostile(t, m, func(r *http.Request) bool { return r.Method == http.MethodGet })
		})
	}
	for name, m := range falseClaims {
		t.Run("it says: "+name, func(t *testing.T) { checkHostile(t, m, func(*http.Request) bool { return true }) })
	}
}

// checkHostile fetches the file beside a neighbour that answers these requests as it likes.
func checkHostile(t *testing.T, m misdeed, match func(*http.Request) bool) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("got a request to where a neighbour redirects to, want none")
	}))
	defer elsewhere.Close()
	s := newSite(t, 1, size, 0, 0)
	s.elsewhere = elsewhere.URL
	s.hostile(func(w http.ResponseWriter, r *http.Request) {
		if match(r) {
			m.answer(s, w, r)
		}
	})
	if took := s.fetchAll(); took > 20*time.Second {
		t.Errorf("got the file after %v, want it within 20 seconds", took)
	}
	n := s.nodes[0]
	n.want()
	if got := s.source.all.Load(); got < size-1000 || got > size+10000 {
		t.Errorf("got %d bytes from the source, want the %d of the file", got, size)
	}
	if got := strings.Join(n.notes, "\n"); !strings.Contains(got, m.note) || m.note == "" && got != "" {
		t.Errorf("got the notes %q, want %q", got, m.note)
	}
}

// After a neighbour that lies, the file comes from one that is honest, not from the source.
func TestHonestNeighbourAfterALiar(t *testing.T) {
	s := newSite(t, 2, size, 0, 0)
	if err := s.nodes[1].fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.source.all.Store(0)
	s.hostile(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			from, to := s.part(w, r)
			_, _ = w.Write(make([]byte, to-from))
		}
	})
	// The honest one sends to another node at first, so the liar seems better.
	busy, err := http.Get("http://" + s.nodes[1].address + "/v1/files/" + s.id.String())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { _ = busy.Body.Close() })
	if err := s.nodes[0].fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.nodes[0].want()
	if got := s.source.all.Load(); got != 0 {
		t.Errorf("got %d bytes from the source, want none", got)
	}
	if len(s.nodes[0].notes) != 1 {
		t.Errorf("got the notes %q, want that the liar is not asked any more", s.nodes[0].notes)
	}
}

// A neighbour that lies is believed by all nodes at first, and passed on. Then one node asks the source, and the others
// take the file from it and from each other, although that takes longer than a node waits. Who began to pass on what it
// got from the liar may have to begin twice.
func TestLiarAmongManyNodes(t *testing.T) {
	s := newSite(t, 8, size, 1<<20, 5<<20)
	s.hostile(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			from, to := s.part(w, r)
			_, _ = w.Write(make([]byte, to-from))
		}
	})
	if took := s.fetchAll(); took > 40*time.Second {
		t.Errorf("got the file after %v, want it within 40 seconds", took)
	}
	for _, n := range s.nodes {
		n.want()
	}
	if got := s.source.all.Load(); got > 4*size {
		t.Errorf("got %d bytes from the source, want at most four times the %d of the file", got, size)
	}
}

// Two nodes are killed in the middle of the fetch, with their servers. One may read from the source. The others go on
// with what they have. Both start again later and fetch the rest.
func TestKilledNodes(t *testing.T) {
	s := newSite(t, 6, size, 2<<20, 10<<20)
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, len(s.nodes))
	for i, n := range s.nodes {
		nodeCtx := t.Context()
		if i < 2 {
			nodeCtx = ctx
		}
		go func() { ended <- n.fetch(nodeCtx) }()
	}
	waitFor(t, "half of the file at all nodes", func() bool {
		for _, n := range s.nodes {
			if fi, err := os.Stat(filepath.Join(n.folder(), "delta.thin.part")); err != nil || fi.Size() < size/3 {
				return false
			}
		}
		return true
	})
	kill()
	for _, n := range s.nodes[:2] {
		n.stop()
	}
	failed := 0
	for range s.nodes {
		if err := <-ended; err != nil {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("got %d nodes that failed, want the two that were killed", failed)
	}
	before := s.source.all.Load()
	for _, n := range s.nodes[:2] {
		n.serve(&neighbour.Server{})
		if err := n.fetch(t.Context()); err != nil {
			t.Errorf("again: got %v, want no error", err)
		}
		if got := n.download.Bytes(); got == 0 || got > size-size/3 {
			t.Errorf("again: got %d bytes of neighbours, want the rest", got)
		}
	}
	for _, n := range s.nodes {
		n.want()
	}
	if after := s.source.all.Load(); before > 2*size || after != before {
		t.Errorf("got %d bytes from the source, and %d after the restart, want at most twice the %d of the file, and none",
			before, after-before, size)
	}
}

// The server of a node ends while others read from it: they go on elsewhere. The node itself gets its file.
func TestServeIsKilled(t *testing.T) {
	s := newSite(t, 4, size, 2<<20, 10<<20)
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		waitFor(t, "part of the file", func() bool {
			return s.nodes[0].up.all.Load()+s.nodes[1].up.all.Load() > size/4
		})
		s.nodes[0].stop()
		s.nodes[1].stop()
	}()
	s.fetchAll()
	<-stopped
	for _, n := range s.nodes {
		n.want()
	}
	if got := s.source.all.Load(); got > 3*size {
		t.Errorf("got %d bytes from the source, want less than three times the %d of the file", got, size)
	}
}

// A node that offers nothing takes what others have.
func TestNodeThatServesNothing(t *testing.T) {
	s := newSite(t, 2, size, 0, 0)
	if err := s.nodes[0].fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.source.all.Store(0)
	s.nodes[1].stop()
	s.change = func(o *neighbour.Options) { o.Self = nil }
	if err := s.nodes[1].fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.nodes[1].want()
	if got := s.source.all.Load(); got != 0 {
		t.Errorf("got %d bytes from the source, want none", got)
	}
}

func waitFor(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("got no %s within 30 seconds", what)
			return
		}
	}
}
