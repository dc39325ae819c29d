package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrDevice means that a device did not answer in time.
var ErrDevice = fault.New(fault.Damaged, "the device does not answer",
	"plug the device in again, or use another one; the log of the kernel says more")

// ReadDeadline is how long one read of a medium may take. The kernel tries a sector of a damaged disk for
// 30 seconds (scsi_device.timeout) and then fails the read; a drive that hangs may never answer.
const ReadDeadline = 60 * time.Second

// maxRead is how many bytes are read within a deadline: a CD drive at 1x speed reads 9 MB in 60 seconds.
const maxRead = 1 << 20

// WithDeadline returns a reader whose reads fail with ErrDevice if one takes longer than limit. The read
// itself cannot be interrupted: its goroutine ends when the device answers, and has a buffer of its own.
// From then on every read fails. The reader is for one goroutine.
func WithDeadline(r io.ReaderAt, limit time.Duration) io.ReaderAt {
	return &patient{from: r, limit: limit}
}

type patient struct {
	from    io.ReaderAt
	limit   time.Duration
	stalled error
}

func (p *patient) ReadAt(to []byte, offset int64) (n int, err error) {
	for n < len(to) && err == nil {
		var read int
		read, err = p.read(to[n:min(len(to), n+maxRead)], offset+int64(n))
		n += read
	}
	return n, err
}

// read makes one read within the limit.
func (p *patient) read(to []byte, offset int64) (int, error) {
	if p.stalled != nil {
		return 0, p.stalled
	}
	buffer := make([]byte, len(to))
	where := fmt.Sprintf("byte %d", offset)
	n, err := Within(p.limit, where, func() (int, error) { return p.from.ReadAt(buffer, offset) }, nil)
	if errors.Is(err, ErrDevice) { // the read may still write into the buffer
		p.stalled = err
		return 0, err
	}
	return copy(to, buffer[:n]), err
}

// Open opens a file of a medium, as os.OpenFile does. The error is ErrDevice if that takes longer than limit.
func Open(name string, flags int, limit time.Duration) (*os.File, error) {
	return Within(limit, name, func() (*os.File, error) { return os.OpenFile(name, flags, 0) }, func(late *os.File) {
		_ = late.Close() // nothing was written; a nil file is fine
	})
}

// Stat describes a file of a medium, as os.Stat does. The error is ErrDevice if that takes longer than limit.
func Stat(name string, limit time.Duration) (fs.FileInfo, error) {
	return Within(limit, name, func() (fs.FileInfo, error) { return os.Stat(name) }, nil)
}

// Within returns what f returns, or ErrDevice with the name of the device if that takes longer than limit. f cannot
// be interrupted: it goes on in its goroutine, and late is called with its result; nil is fine.
func Within[T any](limit time.Duration, device string, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		if late != nil {
			go func() { late((<-done).value) }()
		}
		var none T
		return none, fmt.Errorf("%s: %w: no answer for %v", device, ErrDevice, limit)
	}
}
