package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/filelock"
)

// ErrBusy says that another process makes passes.
var ErrBusy = errors.New("another pinbox-node is at work")

func (o Options) lockFile() string { return o.Status + ".lock" }

// busy says whether another process makes passes.
func (o Options) busy() bool { return filelock.Held(o.lockFile()) }

// lock lets one process at a time make passes.
func (o Options) lock(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(o.Status), 0o755); err != nil {
		return nil, err
	}
	wait := filelock.Options{Wait: o.Wait, Waiting: func() { o.Waiting(ErrBusy) }}
	release, err = filelock.Lock(ctx, o.lockFile(), 0o644, wait)
	if errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%w (%s)", ErrBusy, o.lockFile())
	}
	return release, err
}
