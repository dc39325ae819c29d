package node

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/filelock"
)

// composingInterval is the time between two writes of the progress of a store.
const composingInterval = 2 * time.Second

// composingMemory is how much memory Go takes for a store that is put together before it collects garbage more
// often, in bytes: the program and the buffers of decompressors take 30 MB more at most.
const composingMemory = 96 << 20

// composing publishes the progress of a store that is put together from a thin delta.
type composing struct {
	file statusFile
	// done is called with each progress, too.
	done           func(of stores.Store, done, all int64)
	release        func() // of the lock, by which others know that the file counts
	started, wrote time.Time
}

// composingFile has the status of the store that is put together at present.
func (n *Node) composingFile() statusFile {
	return statusFile(filepath.Join(filepath.Dir(n.s.Status), "attach.json"))
}

// report publishes the progress. Errors are ignored: the work goes on without.
func (c *composing) report(of stores.Store, done, all int64) {
	if c.done != nil {
		c.done(of, done, all)
	}
	now := time.Now()
	if c.started.IsZero() {
		c.started, c.release = now, func() {}
		lock := c.file.lock()
		if os.MkdirAll(filepath.Dir(filepath.Dir(lock)), 0o755) == nil && os.MkdirAll(filepath.Dir(lock), 0o700) == nil {
			if release, err := filelock.Lock(context.Background(), lock, 0o600, filelock.Options{}); err == nil {
				c.release = release
			}
		}
	} else if now.Sub(c.wrote) < composingInterval {
		return
	}
	c.wrote = now
	progress := &runtime.StoreProgress{Bytes: done, OfBytes: all}
	if took := now.Sub(c.started); done > 0 && took >= time.Second {
		rest := float64(all-done) / float64(done) * float64(took)
		progress.ETA = now.Add(time.Duration(rest)).UTC().Truncate(time.Second)
	}
	content, err := json.Marshal(runtime.Status{Version: runtime.StatusVersion, Stores: []runtime.StoreStatus{{
		Slot: of.Slot, Digest: of.Thin.String(), ReleaseID: of.ReleaseID, State: runtime.StoreComposing,
		Images: of.Images, Bytes: of.Size, Progress: progress,
	}}})
	if err == nil {
		_ = publishFile(string(c.file), content)
	}
}

// end removes the progress.
func (c *composing) end() {
	if !c.started.IsZero() {
		_ = os.Remove(string(c.file))
		c.release()
	}
}

// composingStores returns the store that another process puts together at present, if there is one.
func (n *Node) composingStores() []runtime.StoreStatus {
	file := n.composingFile()
	if !filelock.Held(file.lock()) {
		return nil
	}
	s, err := file.load()
	if err != nil { // it ends just now
		return nil
	}
	return s.Stores
}

// idle lowers the priority of the process and the memory that it takes. restore undoes that.
func idle() (restore func()) {
	limit, restorePriority := debug.SetMemoryLimit(composingMemory), lowerPriority()
	return func() {
		debug.SetMemoryLimit(limit)
		restorePriority()
	}
}
