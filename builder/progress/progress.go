// Package progress tells a user how far the work is: Hooks are what the caller of a build gives, and
// what all stages of it call. How that is shown is not its business: that of cmd/pinbox.
package progress

import "github.com/pinbox/pinbox/storage/pinset"

// Hooks tell how far the work is. Nil ones are not called. Resolved may be
// called from several goroutines at a time.
type Hooks struct {
	// Resolving is called before images are resolved.
	Resolving func(images int)
	Resolved  func(pinset.Image)
	// Filling is called before layers are read.
	Filling func(pinset.Totals)
	// Read is called with the bytes of each part of a layer that arrived, from
	// several goroutines at a time.
	Read func(int)
	// Step is called before the store or the ISO is written, files are hashed or tags
	// are resolved, with the bytes or tags that there are; Done with each part of them.
	Step func(name string, all int64)
	Done func(int)
	// Again is called with a line that says which registry is asked again and why, from
	// several goroutines at a time.
	Again func(string)
}

// Add tells that n more bytes or tags of the step are done.
func (h Hooks) Add(n int) {
	if h.Done != nil {
		h.Done(n)
	}
}

// Begin tells of a step with as many bytes or tags; 0 if nobody knows.
func (h Hooks) Begin(name string, all int64) {
	if h.Step != nil {
		h.Step(name, all)
	}
}
