package transfer

import (
	"io"
	"sync"
)

// chunk is how many bytes are read at once.
const chunk = 2 << 20

// part is a part of a content, or why there is no more.
type part struct {
	content []byte // valid until the next one is received
	err     error
}

// ahead reads the next part of a content while the one before is used.
type ahead struct {
	next    chan part
	stopped chan struct{}
	reading sync.WaitGroup
}

// readAhead begins to read size bytes.
func readAhead(from io.Reader, size int64) *ahead {
	a := &ahead{next: make(chan part), stopped: make(chan struct{})}
	a.reading.Go(func() {
		var buffers [2][]byte
		for n := 0; size > 0; n ^= 1 {
			if buffers[n] == nil {
				buffers[n] = make([]byte, min(chunk, size))
			}
			got, err := io.ReadFull(from, buffers[n][:min(chunk, size)])
			select {
			case a.next <- part{buffers[n][:got], err}: // so the other buffer is free
			case <-a.stopped:
				return
			}
			if err != nil {
				return
			}
			size -= int64(got)
		}
	})
	return a
}

// stop waits for the last read.
func (a *ahead) stop() {
	close(a.stopped)
	a.reading.Wait()
}
