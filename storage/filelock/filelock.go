package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked reports that another process, or another open file of this one, holds the lock.
var ErrLocked = errors.New("is locked by another process")

// Options of Lock. The zero value tries once.
type Options struct {
	// Wait is how long to wait for the lock.
	Wait time.Duration
	// Waiting is called once, after a second of waiting; it may be nil.
	Waiting func()
	// Inherit lets programs that this process starts hold the lock, too, until the last of them
	// ends.
	Inherit bool
}

const (
	// interval between two attempts: flock(2) waits without a limit or not at all.
	interval = 50 * time.Millisecond
	// notice is the time after which Waiting is called.
	notice = time.Second
)

// Lock locks the file at path, which it creates with these permissions if it does not exist. The
// error is ErrLocked after o.Wait, and ctx.Err() when ctx ends. unlock releases the lock, and does
// not remove the file.
func Lock(ctx context.Context, path string, perm fs.FileMode, o Options) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	if err := Wait(ctx, f, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if o.Inherit {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil { // clears FD_CLOEXEC
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
	return func() { _ = f.Close() }, nil
}

// Wait locks an open file or directory, as Lock does with a path. Close of the file releases the lock.
func Wait(ctx context.Context, f *os.File, o Options) error {
	start := time.Now()
	for called := o.Waiting == nil; ; {
		err := Try(f)
		waited := time.Since(start)
		if !errors.Is(err, ErrLocked) || waited >= o.Wait {
			return err
		}
		if !called && waited >= notice {
			o.Waiting()
			called = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(interval, o.Wait-waited)):
		}
	}
}

// Try locks an open file or directory without waiting. The error is ErrLocked if the lock is held.
// Close of the file releases the lock.
func Try(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%s %w", f.Name(), ErrLocked)
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// Held reports whether the lock on the file at path is held. It is false if the file cannot be
// opened.
func Held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // releases the lock
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
