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

// ErrLocked says that somebody else holds the lock.
var ErrLocked = errors.New("is locked by another process")

// Options of Lock. The zero value tries once.
type Options struct {
	// Wait is how long to wait for the holder of the lock.
	Wait time.Duration
	// Waiting is called once, when the wait has lasted for a second; nil is fine.
	Waiting func()
	// Inherit gives the lock to programs that this process starts, too: it is held until the
	// last of them has ended.
	Inherit bool
}

const (
	// interval between two attempts: flock(2) waits without a limit or not at all.
	interval = 50 * time.Millisecond
	// notice is the time after which somebody is told of the wait.
	notice = time.Second
)

// Lock locks the file at path, which it creates with these permissions if there is none. The
// error is ErrLocked when o.Wait has passed, and that of ctx when ctx ends. The caller calls
// release; the file stays.
func Lock(ctx context.Context, path string, perm fs.FileMode, o Options) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, f, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if o.Inherit {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil { // clears FD_CLOEXEC
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
	}
	return func() { _ = f.Close() }, nil
}

func wait(ctx context.Context, f *os.File, o Options) error {
	start := time.Now()
	for told := o.Waiting == nil; ; {
		err := Try(f)
		waited := time.Since(start)
		if !errors.Is(err, ErrLocked) || waited >= o.Wait {
			return err
		}
		if !told && waited >= notice {
			o.Waiting()
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(interval, o.Wait-waited)):
		}
	}
}

// Try locks an open file or folder without waiting. The error is ErrLocked if somebody else
// holds the lock. Close releases it.
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

// Held says whether somebody holds the lock on the file at path. Nobody holds that of a file
// that is not there or cannot be opened.
func Held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // which releases
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
