package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// busy says whether another process makes passes.
func (f nodeFlags) busy() bool {
	file, err := os.Open(f.status + ".lock")
	if err != nil {
		return false
	}
	defer file.Close() // which releases
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// lock lets one process at a time make passes. The kernel releases the lock of
// one that was killed. The lock stands beside the status.
func (f nodeFlags) lock(ctx context.Context, say func(string)) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(f.status), 0o755); err != nil {
		return nil, err
	}
	path := f.status + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	for waits := 0; ; waits++ {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing releases
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if waits == 10 {
			say("another pinbox-node is at work; waiting")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%w (%s)", errBusy, path), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
