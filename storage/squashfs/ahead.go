package squashfs

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

const buffers = 4 // of copySize, between reader and writer

// readAhead writes the output of copy to w, while copy runs in a goroutine.
func readAhead(w io.Writer, copy func(io.Writer) error) error {
	a := &ahead{full: make(chan []byte, buffers), free: make(chan []byte, buffers), quit: make(chan struct{})}
	for range buffers {
		a.free <- make([]byte, copySize)
	}
	var reading sync.WaitGroup
	var read error
	reading.Go(func() {
		defer close(a.full)
		buf := bufio.NewWriterSize(a, copySize)
		if read = copy(buf); read == nil {
			read = buf.Flush()
		}
	})
	err := a.writeTo(w)
	close(a.quit)
	reading.Wait()
	if err != nil {
		return err
	}
	return read
}

// ahead passes buffers between a goroutine that reads and one that writes.
type ahead struct {
	full, free chan []byte // each has the capacity for all buffers
	quit       chan struct{}
}

var errQuit = errors.New("the writer has stopped")

func (a *ahead) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		select {
		case b := <-a.free:
			b = b[:copy(b[:copySize], p)]
			a.full <- b
			n, p = n+len(b), p[len(b):]
		case <-a.quit:
			return n, errQuit
		}
	}
	return n, nil
}

func (a *ahead) writeTo(w io.Writer) error {
	for b := range a.full {
		if _, err := w.Write(b); err != nil {
			return err
		}
		a.free <- b
	}
	return nil
}
