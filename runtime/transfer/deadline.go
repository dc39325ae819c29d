package transfer

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrStalled means that a device did not answer in time.
var ErrStalled = fault.New(fault.Damaged, "the device does not answer",
	"plug the device in again, or use another one; the log of the kernel says more")

// ReadDeadline is how long one read of a medium may take. The kernel tries a sector of a damaged disk for
// 30 seconds (scsi_device.timeout) and then fails the read; a drive that hangs may never answer.
const ReadDeadline = 60 * time.Second

// maxRead is how many bytes are read within a deadline: a CD drive at 1x speed reads 9 MB in 60 seconds.
const maxRead = 1 << 20

// WithDeadline returns a reader whose reads fail with ErrStalled if one takes longer than limit. The read
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
	if errors.Is(err, ErrStalled) { // the read may still write into the buffer
		p.stalled = err
		return 0, err
	}
	return copy(to, buffer[:n]), err
}
