package neighbour_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/neighbour"
)

// link is one direction of a network link; all its connections share its rate.
type link struct {
	rate float64 // bytes a second; 0 is any number
	mu   sync.Mutex
	next time.Time
	all  atomic.Int64 // bytes so far
}

func (l *link) take(n int) {
	l.all.Add(int64(n))
	if l.rate == 0 {
		return
	}
	l.mu.Lock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	pause := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	l.mu.Unlock()
	time.Sleep(pause)
}

// shaped is a connection over links.
type shaped struct {
	net.Conn
	up, down *link
}

func shape(c net.Conn, up, down *link) net.Conn {
	_ = c.(*net.TCPConn).SetWriteBuffer(32 << 10) // else the kernel takes what the link would not
	_ = c.(*net.TCPConn).SetReadBuffer(32 << 10)
	return &shaped{c, up, down}
}

func (c *shaped) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		part := p[n:min(len(p), n+16<<10)]
		c.up.take(len(part))
		var written int
		written, err = c.Conn.Write(part)
		n += written
	}
	return n, err
}

func (c *shaped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 16<<10)])
	c.down.take(n)
	return n, err
}

// shapedListener shapes what is accepted.
type shapedListener struct {
	net.Listener
	up, down *link
}

func (l shapedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return shape(c, l.up, l.down), nil
}

// site is nodes with links to each other, and a source outside.
type site struct {
	t         testing.TB
	content   []byte
	id        digest.Digest
	source    *link // to all nodes together
	sourceURL string
	requests  atomic.Int64 // to the source
	nodes     []*node
	change    func(*neighbour.Options)
	elsewhere string // a server that no node may ask
}

// node is one that fetches the file and offers what it has.
type node struct {
	s        *site
	dir      string
	address  string
	up, down *link
	stop     func()
	download *neighbour.Download
	notes    []string
}

// newSite makes a site. The rates are in bytes a second.
func newSite(t testing.TB, nodes, size int, source, lan float64) *site {
	t.Helper()
	s := &site{t: t, content: make([]byte, size), source: &link{rate: source}}
	_, _ = rand.NewChaCha8([32]byte{}).Read(s.content) // it always returns nil
	s.id = digest.FromBytes(s.content)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.content))
	}))
	server.Listener = shapedListener{server.Listener, s.source, &link{}}
	server.Start()
	t.Cleanup(server.Close)
	s.sourceURL = server.URL + "/delta.thin"
	for range nodes {
		n := &node{s: s, dir: t.TempDir(), up: &link{rate: lan}, down: &link{rate: lan}}
		s.nodes = append(s.nodes, n)
		n.serve(&neighbour.Server{Connections: 1 << 10, ConnectionsOfOne: 1 << 10, UploadsOfOne: 4})
	}
	return s
}

// serve starts to offer the files of the node. Its address stays.
func (n *node) serve(server *neighbour.Server) {
	n.s.t.Helper()
	if n.address == "" {
		n.address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", n.address)
	if err != nil {
		n.s.t.Fatal(err)
	}
	n.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server.Dir = n.dir
	go func() { done <- server.Serve(ctx, shapedListener{l, n.up, n.down}) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.s.t.Errorf("got %v from the server of a node, want no error", err)
		}
	})
	n.s.t.Cleanup(func() { n.stop() })
}

// addresses are those of all nodes.
func (s *site) addresses() (all []string) {
	for _, n := range s.nodes {
		all = append(all, n.address)
	}
	return all
}

// folder is where the node fetches the file to.
func (n *node) folder() string { return filepath.Join(n.dir, "incoming", n.s.id.Encoded()) }

// fetch fetches the file as pinbox-node attach does.
func (n *node) fetch(ctx context.Context) error {
	announced, err := neighbour.Announce(n.folder(), "delta.thin", int64(len(n.s.content)))
	if err != nil {
		return err
	}
	defer announced.Close()
	o := neighbour.Options{
		Neighbours: n.s.addresses(), Self: []string{n.address}, Announce: announced.Set, Settle: 200 * time.Millisecond,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return shape(c, n.up, n.down), nil
		},
		Note: func(address string, why error) { n.notes = append(n.notes, fmt.Sprint(address, ": ", why)) },
	}
	if n.s.change != nil {
		n.s.change(&o)
	}
	n.download = neighbour.New(n.s.id, int64(len(n.s.content)), o)
	defer n.download.Close()
	_, err = fetch.Store(ctx, fetch.Options{
		URL: n.s.sourceURL, File: filepath.Join(n.folder(), "delta.thin"), Size: int64(len(n.s.content)), Digest: n.s.id,
		Nearby: n.download, Pause: 10 * time.Millisecond,
	})
	return err
}

// fetchAll fetches the file at all nodes at once, and returns how long that took.
func (s *site) fetchAll() time.Duration {
	s.t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for i, n := range s.nodes {
		all.Go(func() {
			if err := n.fetch(s.t.Context()); err != nil {
				s.t.Errorf("node %d: got %v, want no error", i, err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// want checks that a node has the file.
func (n *node) want() {
	n.s.t.Helper()
	f, err := os.Open(filepath.Join(n.folder(), "delta.thin"))
	if err != nil {
		n.s.t.Error(err)
		return
	}
	defer f.Close()
	got := digest.SHA256.Digester()
	if _, err := io.Copy(got.Hash(), f); err != nil || got.Digest() != n.s.id {
		n.s.t.Errorf("got a file with %s, %v, want %s", got.Digest(), err, n.s.id)
	}
}
