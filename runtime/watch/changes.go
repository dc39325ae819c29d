package watch

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Changes reports changes in a folder until ctx ends, with one value for one or several. While the
// folder does not exist, or cannot be watched, it sends a value in each interval, so that the
// receiver reads the folder.
func Changes(ctx context.Context, dir string, interval time.Duration) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			watch(ctx, dir, changes)
			notify(changes)
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	}()
	return changes
}

// watch reports changes until the folder is removed.
func watch(ctx context.Context, dir string, changes chan<- struct{}) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	defer w.Close()
	if w.Add(dir) != nil {
		return
	}
	notify(changes) // of changes before the watch
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok || e.Name == dir && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return
			}
			notify(changes)
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			notify(changes) // events were lost
		}
	}
}

// Merge passes on the values of two channels until ctx ends.
func Merge(ctx context.Context, a, b <-chan struct{}) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-a:
				notify(changes)
			case <-b:
				notify(changes)
			}
		}
	}()
	return changes
}

// notify sends a value, unless one waits already.
func notify(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}
