package tail

import (
	"errors"
	"io"
)

// stream is the rest of a blob. It keeps to what callers expect of a reader and the
// library's does not: of a registry without ranges, bufferedNetworkReader in
// docker/docker_image_src.go panics when it is read again after an error, and
// signalCloseReader there reads when it is closed, and panics when it is closed again.
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
		// It releases the library's goroutine, and only then panics.
		defer func() { _ = recover() }()
	}
	return s.body.Close()
}
