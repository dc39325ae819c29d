package storage

import (
	"context"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"
)

// A blob that finds no free connection asks for some without waiting, and takes them later. At its end it has none.
func TestExtraConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := semaphore.NewWeighted(4)
		if !all.TryAcquire(4) {
			t.Fatal("got no connections")
		}
		e := newExtra(t.Context(), all)
		for range 2 * maxAsked {
			if e.take() {
				t.Fatal("got a connection, and none is free")
			}
		}
		all.Release(4)
		if synctest.Wait(); len(e.got) != maxAsked {
			t.Fatalf("got %d connections, want %d", len(e.got), maxAsked)
		}
		if !all.TryAcquire(4 - maxAsked) {
			t.Errorf("the blob asked for more than %d connections", maxAsked)
		}
		if !e.take() {
			t.Error("got no connection that was asked for")
		}
		if err := e.wait(); err != nil {
			t.Error(err)
		}
		if e.take() { // and asks again
			t.Error("got a connection, and none is free")
		}
		all.Release(1)
		if synctest.Wait(); len(e.got) != 1 {
			t.Fatalf("got %d connections, want 1", len(e.got))
		}
		e.giveBack()
		if !all.TryAcquire(1) {
			t.Error("a connection that was asked for was not given back")
		}
		if e.take() {
			t.Error("got a connection, and none is free")
		}
		e.end()
		all.Release(4)
		if !all.TryAcquire(4) {
			t.Error("connections are in use after the end")
		}
	})
}

// What a blob has asked for is given back also if it has never read by it, and if it was stopped.
func TestExtraConnectionsOfABlobThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := semaphore.NewWeighted(1)
		if !all.TryAcquire(1) {
			t.Fatal("got no connection")
		}
		ctx, stop := context.WithCancel(t.Context())
		e := newExtra(ctx, all)
		e.take()
		stop()
		if err := e.wait(); err == nil {
			t.Error("a blob that was stopped got a connection")
		}
		e.end()
		all.Release(1)
		if !all.TryAcquire(1) {
			t.Error("connections are in use after the end")
		}
	})
}
