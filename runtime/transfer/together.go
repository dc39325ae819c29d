package transfer

import (
	"io"

	"golang.org/x/sync/errgroup"
)

// Together is io.MultiWriter that writes to all writers at the same time, and waits for all: a hash and a disk take as
// long as the slower one. The error is that of the first writer that has one.
func Together(first io.Writer, others ...io.Writer) io.Writer { return together{first, others} }

type together struct {
	first  io.Writer
	others []io.Writer
}

func (t together) Write(p []byte) (int, error) {
	var group errgroup.Group
	for _, w := range t.others {
		group.Go(func() error { return write(w, p) })
	}
	err := write(t.first, p)
	if failed := group.Wait(); err == nil {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func write(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}
