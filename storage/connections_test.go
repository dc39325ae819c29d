package storage

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
)

// crowd answers so many requests for manifests together, and counts the connections by which they come.
type crowd struct {
	together int

	mu      sync.Mutex
	waiting []chan struct{}
	clients map[string]bool
}

func (c *crowd) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == "pinbox" && strings.Contains(r.URL.Path, "/manifests/") {
			<-c.join(r.RemoteAddr)
		}
		next.ServeHTTP(w, r)
	})
}

func (c *crowd) join(client string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[client] = true
	answer := make(chan struct{})
	if c.waiting = append(c.waiting, answer); len(c.waiting) >= c.together {
		for _, w := range c.waiting {
			close(w)
		}
		c.waiting = nil
	}
	return answer
}

// Connections are kept for the next requests, as many as are used at a time. A bug was that all but two were closed.
func TestConnectionsAreKept(t *testing.T) {
	const together = 8
	c := &crowd{together: 1, clients: map[string]bool{}}
	registry, err := sample.Serve(c.wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	all := stacks(t, registry, 1+2*together)
	client, err := NewClient(Access{Insecure: []string{registry.Host}}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	src, err := client.open(t.Context(), all[0]) // while it is open, connections are kept
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	if _, _, err := src.GetManifest(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	c.together = together
	for _, images := range [][]pinset.Image{all[1 : 1+together], all[1+together:]} {
		if _, err := client.Resolve(t.Context(), images, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(c.clients); got > together+2 {
		t.Errorf("got %d connections, want %d and at most two more", got, together)
	}
}

// stacks pushes so many images.
func stacks(t *testing.T, registry *sample.Registry, n int) (all []pinset.Image) {
	t.Helper()
	for i := range n {
		pin, err := registry.PushStack(t.Context(), "connections", 100+i)
		if err != nil {
			t.Fatal(err)
		}
		img, err := pinset.ParseImage(pin)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, img)
	}
	return all
}

// Whoever knows that a registry admits one request at a time says so.
func TestParallel(t *testing.T) {
	for parallel, want := range map[int][2]int{0: {32, 24}, 1: {1, 1}, 2: {2, 1}, 8: {8, 6}} {
		c := &Client{remote: sources{parallel: parallel}}
		if got := [2]int{c.parallel(), c.resolving()}; got != want {
			t.Errorf("%d: got %v connections and those for manifests, want %v", parallel, got, want)
		}
	}

	var open, most atomic.Int32
	registry, err := sample.Serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.UserAgent() == "pinbox" && strings.Contains(r.URL.Path, "/manifests/") {
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1) // before the end of the answer is sent
			}
			next.ServeHTTP(w, r)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	client, err := NewClient(Access{Insecure: []string{registry.Host}, Parallel: 1}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.Resolve(t.Context(), stacks(t, registry, 24), nil); err != nil {
		t.Fatal(err)
	}
	if got := most.Load(); got != 1 {
		t.Errorf("got %d requests at a time, want 1", got)
	}
}
