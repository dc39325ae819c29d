package watch

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Changes tells of every change in a folder until ctx ends: a value for one or
// several. While the folder is not there, or cannot be watched, it tells every
// so often, so that whoever looks finds out.
func Changes(ctx context.Context, dir string, often time.Duration) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			watch(ctx, dir, changes)
			tell(changes)
			select {
			case <-ctx.Done():
			case <-time.After(often):
			}
		}
	}()
	return changes
}

// watch tells of changes until the folder goes away.
func watch(ctx context.Context, dir string, changes chan<- struct{}) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	defer w.Close()
	if w.Add(dir) != nil {
		return
	}
	tell(changes) // what happened before
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok || e.Name == dir && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return
			}
			tell(changes)
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			tell(changes) // some were lost
		}
	}
}

// tell leaves a value, unless one is waiting already.
func tell(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}
