package storage

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// maxAsked is the number of connections that a blob asks for at a time. It holds those that it was given before it can
// use them, so all blobs that are read at once, parallelPacks, must leave some to the others.
const maxAsked = 2

// extra are connections for parts of a blob. They are asked for in turn with those for other blobs.
type extra struct {
	all    *semaphore.Weighted
	blob   context.Context
	ctx    context.Context // of what was asked for
	cancel context.CancelFunc
	asked  int        // answers that are or will be in got
	got    chan error // nil for a connection
}

func newExtra(ctx context.Context, all *semaphore.Weighted) *extra {
	e := &extra{all: all, blob: ctx, got: make(chan error, maxAsked)}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

// take reports whether the blob has got a connection, which the caller releases. It does not wait: if none is free, it
// asks for some.
func (e *extra) take() bool {
	select {
	case err := <-e.got:
		e.asked--
		return err == nil
	default:
	}
	if e.all.TryAcquire(1) {
		return true
	}
	for ctx := e.ctx; e.asked < maxAsked; e.asked++ {
		go func() { e.got <- e.all.Acquire(ctx, 1) }()
	}
	return false
}

// giveBack gives back what was not taken, since the blob needs no more.
func (e *extra) giveBack() {
	if e.asked > 0 {
		e.end()
		e.ctx, e.cancel = context.WithCancel(e.blob)
	}
}

// wait waits for a connection. It takes one that was asked for, if any: the connections that blobs have got while they
// wait could be all that there are.
func (e *extra) wait() error {
	if e.asked == 0 {
		return e.all.Acquire(e.ctx, 1)
	}
	e.asked--
	return <-e.got
}

// end gives back what was not taken.
func (e *extra) end() {
	e.cancel()
	for ; e.asked > 0; e.asked-- {
		if <-e.got == nil {
			e.all.Release(1)
		}
	}
}
