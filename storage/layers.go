package storage

import (
	"sync"

	"github.com/pinbox/pinbox/storage/pinset"
)

// layers are those of the images that are being resolved, each once.
type layers struct {
	mu    sync.Mutex
	known pinset.Shared
}

// share returns layers that earlier images have in common with this one, where they are equal.
func (l *layers) share(of []*pinset.LockedLayer) []*pinset.LockedLayer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.Layers(of)
}

// forget frees the memory of what is known.
func (l *layers) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = pinset.Shared{}
}
