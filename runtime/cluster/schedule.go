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

// due is when the report is written, if changes are delayed by a random time of at most window.
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

const (
	// perSecond is how many writes all nodes together are to make in a second when all have something to report, as after
	// the change of a set. At most 50 are wanted, and chance and slow seconds of the API make some busier than others.
	perSecond = 20
	// longest is the longest delay: that of a cluster with 18,000 nodes.
	longest = 15 * time.Minute
)

// window is the most by which a report that takes so many writes is delayed in a cluster of so many nodes: what one
// node reports is seen at once, and 1,000 nodes share 50 seconds. If the number is not known, it is the jitter;
// without jitter there is no delay.
func window(nodes int64, writes int, jitter time.Duration) time.Duration {
	if nodes <= 0 || jitter <= 0 {
		return max(jitter, 0)
	}
	nodes = min(nodes, perSecond*int64(longest/time.Second)) // no overflow
	return min(time.Duration(nodes)*time.Duration(writes)*time.Second/perSecond, longest)
}
