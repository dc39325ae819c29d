package transfer

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Open opens a file of a medium, as os.OpenFile does. The error is ErrStalled if that takes longer than limit.
func Open(name string, flags int, limit time.Duration) (*os.File, error) {
	return Within(limit, name, func() (*os.File, error) { return os.OpenFile(name, flags, 0) }, func(late *os.File) {
		_ = late.Close() // nothing was written; a nil file is fine
	})
}

// Stat describes a file of a medium, as os.Stat does. The error is ErrStalled if that takes longer than limit.
func Stat(name string, limit time.Duration) (fs.FileInfo, error) {
	return Within(limit, name, func() (fs.FileInfo, error) { return os.Stat(name) }, nil)
}

// Within returns what f returns, or ErrStalled with the name of the device if that takes longer than limit. f cannot
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
		return none, fmt.Errorf("%s: %w: no answer for %v", device, ErrStalled, limit)
	}
}
