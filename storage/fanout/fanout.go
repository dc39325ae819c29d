package fanout

import (
	"io"

	"golang.org/x/sync/errgroup"
)

// Writer returns an io.MultiWriter that writes to all writers at the same time, each in a goroutine, and waits for all:
// that takes as long as the slowest one. A write returns the number of bytes and the error of the first writer, or the
// error of another one.
func Writer(first io.Writer, others ...io.Writer) io.Writer { return writer{first, others} }

type writer struct {
	first  io.Writer
	others []io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	var group errgroup.Group
	for _, other := range w.others {
		group.Go(func() error {
			_, err := write(other, p)
			return err
		})
	}
	n, err := write(w.first, p)
	if failed := group.Wait(); err == nil {
		err = failed
	}
	return n, err
}

func write(w io.Writer, p []byte) (int, error) {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
