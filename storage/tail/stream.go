package tail

import (
	"errors"
	"io"
)

// stream is the rest of a blob. It makes the library's reader safe to read after an error, and to
// close twice. For a registry without ranges, bufferedNetworkReader in docker/docker_image_src.go
// panics when it is read after an error, and signalCloseReader reads when it is closed, and panics
// when it is closed twice.
type stream struct {
	body   io.ReadCloser
	err    error // of the last Read
	closed bool
}

func (s *stream) Read(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	n, s.err = s.body.Read(p)
	return n, s.err
}

func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.err != nil && !errors.Is(s.err, io.EOF) {
		// Close releases the library's goroutine before it panics.
		defer func() { _ = recover() }()
	}
	return s.body.Close()
}
