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

// composing is the progress of an attach. It publishes that of a store that is put together from a thin delta, which is
// done at a low priority.
type composing struct {
	file statusFile
	// next is told of all progress, too; nil is fine.
	next           stores.Progress
	unlock         func() // of the lock, by which others know that the file counts
	restore        func() // the priority; nil if it is not low
	started, wrote time.Time
}

// Done implements stores.Progress.
func (c *composing) Done(step stores.Step, of stores.Store, done, all int64) {
	if c.next != nil {
		c.next.Done(step, of, done, all)
	}
	if step == stores.Composing {
		c.report(of, done, all)
	}
}

// Note implements stores.Progress.
func (c *composing) Note(line string) {
	if c.next != nil {
		c.next.Note(line)
	}
}

// composingFile has the status of the store that is put together at present.
func (n *Node) composingFile() statusFile {
	return statusFile(filepath.Join(filepath.Dir(n.conf.Status), "attach.json"))
}

// report publishes the progress. Errors are ignored: the work goes on without.
func (c *composing) report(of stores.Store, done, all int64) {
	now := time.Now()
	if c.started.IsZero() {
		c.started, c.unlock, c.restore = now, func() {}, idle()
		lock := c.file.lock()
		if os.MkdirAll(filepath.Dir(filepath.Dir(lock)), 0o755) == nil && os.MkdirAll(filepath.Dir(lock), 0o700) == nil {
			if unlock, err := filelock.Lock(context.Background(), lock, 0o600, filelock.Options{}); err == nil {
				c.unlock = unlock
			}
		}
	} else if done < all && now.Sub(c.wrote) < composingInterval {
		return
	}
	if done == all {
		c.normal()
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

// normal restores the priority.
func (c *composing) normal() {
	if c.restore != nil {
		c.restore()
		c.restore = nil
	}
}

// end removes the progress.
func (c *composing) end() {
	if !c.started.IsZero() {
		c.normal()
		_ = os.Remove(string(c.file))
		c.unlock()
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
