package cluster

import (
	"time"

	"github.com/pinbox/pinbox/runtime/fleet"
)

// The time between two writes of a report.
const (
	whilePulling = 10 * time.Second
	atRest       = 5 * time.Minute
	// heartbeat is how often a report is written that says nothing new: who reads it sees that the service works.
	heartbeat = 30 * time.Minute
	// gathering is how long changes are gathered: most passes take less.
	gathering = time.Second
)

// nextWrite is when a report may be written that differs from the one that was written last; that was at the time last.
func nextWrite(written, now fleet.Report, last, changed time.Time) time.Time {
	interval := atRest
	if written.Pulling() || now.Pulling() || written.Ready != now.Ready ||
		!written.FirstSync.Equal(now.FirstSync) {
		interval = whilePulling
	}
	if next := last.Add(interval); next.After(changed.Add(gathering)) {
		return next
	}
	return changed.Add(gathering)
}
