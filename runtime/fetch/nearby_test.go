package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/pinbox/pinbox/runtime/fetch"
)

// nearby gives parts of a content, each once.
type nearby struct {
	content []byte
	parts   []int // their lengths; 0 is the server's turn
	refused int
	again   bool
}

func (n *nearby) Open(_ context.Context, from int64) (io.ReadCloser, error) {
	if len(n.parts) == 0 || n.parts[0] == 0 {
		n.parts = n.parts[min(len(n.parts), 1):]
		return nil, nil
	}
	part := n.content[from:min(int(from)+n.parts[0], len(n.content))]
	n.parts = n.parts[1:]
	return io.NopCloser(bytes.NewReader(part)), nil
}

func (n *nearby) Refuse() bool {
	n.refused++
	n.parts = nil
	return n.again
}

// Parts of the store come from nearby, the others from the server. What is nearby and has another digest is not kept.
func TestNearby(t *testing.T) {
	for name, c := range map[string]struct {
		near     nearby
		requests int64
		refused  int
		want     error
	}{
		"all is nearby":         {nearby{content: content, parts: []int{1 << 20, 1 << 20, 1 << 20, 1 << 20}}, 0, 0, nil},
		"the beginning":         {nearby{content: content, parts: []int{1 << 20}}, 1, 0, nil},
		"nothing":               {nearby{content: content}, 1, 0, nil},
		"another store":         {nearby{content: other, parts: []int{size}, again: true}, 1, 1, nil},
		"the server has a part": {nearby{content: other, parts: []int{1000, 0}, again: true}, 2, 1, nil},
		"it was not nearby":     {nearby{content: other, parts: []int{size}}, 0, 1, fetch.ErrDigest},
	} {
		t.Run(name, func(t *testing.T) {
			o, requests := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { good(w, r, content) })
			o.Nearby = &c.near
			_, err := fetch.Store(t.Context(), o)
			if !errors.Is(err, c.want) || requests.Load() != c.requests || c.near.refused != c.refused {
				t.Errorf("got %v, %d requests and %d refusals, want %v, %d and %d", err, requests.Load(), c.near.refused, c.want,
					c.requests, c.refused)
			}
			if got, _ := os.ReadFile(o.File); c.want == nil && !bytes.Equal(got, content) {
				t.Errorf("got %d bytes that differ, want the store", len(got))
			}
		})
	}
}
