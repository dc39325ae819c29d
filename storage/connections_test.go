package storage

import (
	"net/http"
	"strings"
	"sync"
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
	var all []pinset.Image
	for i := range 1 + 2*together {
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
