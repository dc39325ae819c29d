package storage

import (
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// texts are those of the layers of the images that are being resolved, each once: most images have most layers in
// common with others.
type texts struct {
	mu    sync.Mutex
	known map[string]string
}

// share lets layers have their texts in common with those before.
func (t *texts) share(layers []pinset.LockedLayer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]string{}
	}
	for i := range layers {
		l := &layers[i]
		l.Digest, l.DiffID = digest.Digest(t.of(l.Digest.String())), digest.Digest(t.of(l.DiffID.String()))
		l.MediaType = t.of(l.MediaType)
	}
}

func (t *texts) of(text string) string {
	known, ok := t.known[text]
	if !ok {
		known = strings.Clone(text) // it may be a part of a document
		t.known[known] = known
	}
	return known
}

// forget frees the memory of what is known.
func (t *texts) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = nil
}
