package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
)

// ErrBusy is another process that makes passes.
var ErrBusy = fault.New(fault.Busy, "another pinbox-node is running",
	"`pinbox-node status` shows what it does; --wait sets how long to wait for it")

// lock waits until no other process makes passes. The caller calls unlock.
func (o Options) lock(ctx context.Context) (unlock func(), err error) {
	file := statusFile(o.Status).lock()
	// Another user who could open the lock could hold it. The folder of the status is for all.
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(filepath.Dir(file)), 0o755), os.MkdirAll(filepath.Dir(file), 0o700)); err != nil {
		return nil, err
	}
	wait := filelock.Options{Wait: o.Wait, Waiting: func() { o.Waiting(ErrBusy) }}
	unlock, err = filelock.Lock(ctx, file, 0o600, wait)
	if errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%w (%s)", ErrBusy, file)
	}
	return unlock, err
}
