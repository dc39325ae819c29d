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
	// spread is by how much more reports are delayed than passes, at random: with the default of 10 seconds, 1,000 nodes
	// that are new make 40 writes in a second.
	spread = 5
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

// pace says when a node writes its report.
type pace struct {
	// last is when a report was written last, or was not, if that failed; next is when one may be written that says
	// something new, zero if there is nothing new.
	last, next time.Time
	failed     bool
	// delayShare, from 0 to 1, is how much of the longest delay this report waits, at random. It is drawn once for a
	// report: a new one for each change that it has would in the end be the shortest of many.
	delayShare float64
}

// plan sets next by what the node would report now. A pass that was worth a report stays so when it has ended.
func (p *pace) plan(written, now fleet.Report, at time.Time) {
	if now.Same(written) {
		p.next = time.Time{}
		return
	}
	if next := nextWrite(written, now, p.last, at); p.next.IsZero() || next.Before(p.next) {
		p.next = next
	}
}

// due is when the report is written, if it is delayed by a random time of at most window.
func (p pace) due(window time.Duration) time.Time {
	part := func(of time.Duration) time.Duration { return time.Duration(p.delayShare * float64(of)) }
	due := p.last.Add(heartbeat + part(heartbeat/10))
	if p.failed {
		due = p.last.Add(whilePulling + part(atRest-whilePulling))
	}
	if next := p.next.Add(part(window)); !p.next.IsZero() && (next.Before(due) || p.last.IsZero()) {
		return next
	}
	return due
}
