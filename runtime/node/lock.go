package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
)

// ErrBusy is another process that makes passes.
var ErrBusy = fault.New(fault.Busy, "another pinbox-node is running",
	"`pinbox-node status` shows what it does; --wait sets how long to wait for it")

// lock waits until no other process makes passes. The caller calls unlock.
func (n *Node) lock(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	file := statusFile(n.conf.Status).lock()
	// Another user who could open the lock could hold it. The folder of the status is for all.
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(filepath.Dir(file)), 0o755), os.MkdirAll(filepath.Dir(file), 0o700)); err != nil {
		return nil, err
	}
	how := filelock.Options{Wait: wait, Waiting: func() { n.s.Waiting(ErrBusy) }}
	unlock, err = filelock.Lock(ctx, file, 0o600, how)
	if errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%w (%s)", ErrBusy, file)
	}
	return unlock, err
}
