package neighbour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// Server offers the files of a node to its neighbours. The zero values of the limits are the defaults.
type Server struct {
	// Dir is the folder of the stores.
	Dir string
	// Uploads is how many files are sent at once, 4 by default, and UploadsOfOne to one address, 2 by default.
	Uploads, UploadsOfOne int
	// Connections is how many there are at once, 256 by default, and ConnectionsOfOne from one address, 16 by default.
	Connections, ConnectionsOfOne int
	// Rate is how many bytes are sent in a second, to all neighbours together; 0 is any number.
	Rate int64
	// Wait is how long an upload waits for bytes that are still to be fetched, 2 seconds by default.
	Wait time.Duration
	// Look is how often the addresses of the interface are read, every 5 seconds by default.
	Look time.Duration
	// Log gets what a person should know; nil is fine.
	Log *slog.Logger

	once    sync.Once
	uploads *counter
	pace    pace
}

const (
	// headerTime, idleTime and writeTime bound what a connection may cost: to send its headers, between two requests,
	// and to take a chunk.
	headerTime = 5 * time.Second
	idleTime   = 30 * time.Second
	writeTime  = 30 * time.Second
	// maxHeader is far more than the headers of a neighbour have.
	maxHeader = 8 << 10
	chunk     = 256 << 10
	// look is how often a file is looked at that is being fetched.
	look = 20 * time.Millisecond
)

func (s *Server) prepare() {
	s.once.Do(func() {
		s.uploads = newCounter(or(s.Uploads, 4), or(s.UploadsOfOne, 2))
		s.Wait = or(s.Wait, 2*time.Second)
		s.pace.rate = s.Rate
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
	})
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Serve answers the connections of a listener until ctx ends. All listeners share the limits of uploads.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.prepare()
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(newBounded(listener, or(s.Connections, 256), or(s.ConnectionsOfOne, 16)))
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// ServeHTTP answers GET and HEAD for a digest. There is nothing else to ask for.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.prepare()
	id := parsePath(r.URL.Path)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // what follows is not read
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if id == "" || r.URL.RawQuery != "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	o, err := find(s.Dir, id)
	if err != nil {
		if !errors.Is(err, errNone) {
			s.Log.Warn("a file cannot be offered", "error", err)
		}
		w.WriteHeader(http.StatusNotFound)
		return
	}
	header := w.Header()
	header.Set(bytesHeader, strconv.FormatInt(o.have, 10))
	header.Set(stateHeader, stateFetching)
	if o.complete {
		header.Set(stateHeader, stateComplete)
	}
	if o.source != NoSource {
		header.Set(sourceHeader, string(o.source))
	}
	header.Set(uploadsHeader, strconv.Itoa(s.uploads.count()))
	if r.Method == http.MethodHead {
		header.Set("Accept-Ranges", "bytes")
		header.Set("Content-Length", strconv.FormatInt(o.size, 10))
		return
	}
	s.upload(w, r, id, o)
}

// upload sends a file, also one of which the rest is still being fetched.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, id digest.Digest, o offered) {
	from, to, ok := parseRange(r, o.size)
	if !ok {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", o.size))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	most := -1
	if n, err := strconv.Atoi(r.Header.Get(uploadsHeader)); err == nil {
		most = n
	}
	client := host(r.RemoteAddr)
	if !s.uploads.begin(client, most) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.uploads.end(client)
	f, err := s.open(r.Context(), id, from)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer f.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(to-from, 10))
	status := http.StatusOK
	if r.Header.Get("Range") != "" {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, o.size))
		status = http.StatusPartialContent
	}
	w.WriteHeader(status)
	if err := s.send(r.Context(), w, f, from, to); err != nil {
		panic(http.ErrAbortHandler) // it ends the connection: the client sees that bytes are missing
	}
}

// errNoBytes means that no more bytes of a file came in time.
var errNoBytes = errors.New("no more bytes of the file")

// open opens a file once it has bytes behind from.
func (s *Server) open(ctx context.Context, id digest.Digest, from int64) (*os.File, error) {
	for deadline := time.Now().Add(s.Wait); ; {
		o, err := find(s.Dir, id) // it gets another name once it is complete
		if err != nil {
			return nil, err
		}
		if o.have > from {
			return os.OpenFile(o.path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		}
		if time.Now().After(deadline) {
			return nil, errNoBytes
		}
		if err := sleep(ctx, look); err != nil {
			return nil, err
		}
	}
}

// send sends the bytes of a file as they come.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, f *os.File, from, to int64) error {
	control := http.NewResponseController(w)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	for last, flushed := time.Now(), false; from < to; {
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		ready := min(fi.Size(), to) - from
		if ready <= 0 {
			if fi.Size() < from || time.Since(last) > s.Wait { // it is fetched anew
				return errNoBytes
			}
			if !flushed {
				err, flushed = control.Flush(), true
			}
			if err := errors.Join(err, sleep(ctx, look)); err != nil {
				return err
			}
			continue
		}
		ready = min(ready, chunk)
		if err := s.pace.wait(ctx, ready); err != nil {
			return err
		}
		if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return err
		}
		if _, err := io.CopyN(w, f, ready); err != nil {
			return err
		}
		from, last, flushed = from+ready, time.Now(), false
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
