package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
)

// maxReason is the length of a reason, in bytes: each node receives it.
const maxReason = 512

// Next is the status that follows from what the nodes have reported: the present one, if nothing is to be changed.
// Nothing is kept besides the status, so it does not matter who decides, and when. A node that has not reported for the
// time stale fails, and so does one that still has not taken what it was released for when it reports after that time.
func (r Rollout) Next(sets []Target, nodes []fleet.Node, stale time.Duration, now time.Time) Status {
	s := r.Status
	if r.Settled(sets) {
		return s
	}
	if !slices.Equal(s.Sets, sorted(sets)) {
		s = Status{Started: now.UTC().Truncate(time.Second), Sets: sorted(sets)}
	}
	w := waves{Spec: r.Spec, Status: s, query: fleet.Query{Stale: stale, Now: now}}
	for _, n := range nodes {
		if w.concerns(n) {
			w.members = append(w.members, n)
		}
	}
	slices.SortFunc(w.members, func(a, b fleet.Node) int { return cmp.Compare(a.Place, b.Place) })
	w.advance()
	return w.Status
}

// Settled reports whether there is nothing to decide: no sets, or these are released to all nodes, also to those that
// join, and ready on enough of them.
func (r Rollout) Settled(sets []Target) bool {
	return (r.Status.State == Complete || r.Status.State == Idle && len(sets) == 0) &&
		slices.Equal(r.Status.Sets, sorted(sets))
}

func sorted(sets []Target) []Target {
	sets = append([]Target{}, sets...) // in JSON, none is no null
	slices.SortFunc(sets, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return sets
}

// waves is a rollout while it is decided about.
type waves struct {
	Spec
	Status
	query   fleet.Query
	members []fleet.Node // by their places
	failing string       // the first node that fails, and why
}

// concerns reports whether a node has one of the sets, and waits for waves: those of the Machine Config Operator do
// not.
func (w *waves) concerns(n fleet.Node) bool {
	if n.Report != nil && n.Report.Owner == string(runtime.MCO) {
		return false
	}
	return slices.ContainsFunc(w.Sets, func(t Target) bool { _, has := n.Desired[t.Name]; return has })
}

// advance releases nodes, goes on to the next wave, or says why not.
func (w *waves) advance() {
	w.count()
	if err := w.Check(); err != nil { // of an API without the rules of deploy/rollouts.yaml
		w.State, w.Reason = Paused, err.Error()
		return
	}
	open, _ := w.open(w.query.Now)
	if len(w.members) == 0 {
		w.State, w.Reason = Idle, "no node has a set of this rollout"
		return
	}
	for w.Wave = min(w.Wave, len(w.Waves)-1); ; w.Wave++ {
		wave := w.Waves[w.Wave]
		w.WaveName = wave.Name
		limit, _ := wave.nodes(len(w.members))
		of := max(limit, w.Nodes.Released) // nodes that joined may be more
		need := ceil(of, cmp.Or(w.Success, 100))
		switch {
		case w.Paused:
			w.State, w.Reason = Paused, fmt.Sprintf("wave %s: paused by somebody", wave.Name)
		case w.Nodes.Failing > of-need:
			text := fmt.Sprintf("wave %s: %d of %d nodes must be ready, and %d fail: %s", wave.Name, need, of,
				w.Nodes.Failing, w.failing)
			w.State, w.Reason = Paused, text[:min(len(text), maxReason)]
		case w.Nodes.Released < limit && !open:
			w.State, w.Reason = Progressing, fmt.Sprintf("wave %s: %d of %d nodes are released; the window is %s UTC",
				wave.Name, w.Nodes.Released, limit, w.Window)
		case w.Nodes.Released < limit:
			w.release(limit)
			w.State, w.Reason = Progressing, fmt.Sprintf("wave %s: %d of %d nodes are released", wave.Name,
				w.Nodes.Released, limit)
		case w.Nodes.Ready < need:
			w.State, w.Reason = Progressing, fmt.Sprintf("wave %s: %d of %d nodes must be ready, and %d are", wave.Name,
				need, of, w.Nodes.Ready)
		case w.Wave < len(w.Waves)-1:
			continue
		default:
			w.Released = Everyone // also those that join
			w.State, w.Reason = Complete, fmt.Sprintf("%d of %d nodes were ready", w.Nodes.Ready, of)
		}
		return
	}
}

// release releases nodes up to a limit, as many as may pull at once.
func (w *waves) release(limit int) {
	more := limit - w.Nodes.Released
	if w.MaxPulling > 0 {
		more = min(more, max(0, w.MaxPulling-w.Nodes.Pulling))
	}
	if more == 0 {
		return
	}
	w.Nodes.Released += more
	w.Nodes.Pulling += more
	w.ReleasedAt = w.query.Now.UTC().Truncate(time.Second)
	w.Released = w.members[w.Nodes.Released-1].Place
}

// count judges the nodes that are released.
func (w *waves) count() {
	w.Nodes = Counts{Total: len(w.members)}
	for _, n := range w.members {
		if n.Place > w.Released {
			break
		}
		w.Nodes.Released++
		switch reason, text := w.problem(n); {
		case reason == "":
			w.Nodes.Ready++
		case w.goesOn(n, reason) && w.late(n, reason) == 0:
			w.Nodes.Pulling++
		default:
			if late := w.late(n, reason); late > 0 && w.goesOn(n, reason) {
				text = strings.TrimPrefix(fmt.Sprintf("%s, %s after its release", text, late.Truncate(time.Second)), ", ")
			}
			if w.Nodes.Failing == 0 {
				w.failing = fmt.Sprintf("%s: %s", n.Name, reason)
				if text != "" {
					w.failing += ": " + text
				}
			}
			w.Nodes.Failing++
		}
	}
}

// problem is why a node does not have one of the sets, "" if it has all.
func (w *waves) problem(n fleet.Node) (reason, text string) {
	for _, t := range w.Sets {
		if _, has := n.Desired[t.Name]; !has {
			continue
		}
		w.query.Set = t.Name
		found, foundText := n.Problem(w.query)
		if found == fleet.Pulling && failure(n, t) != "" { // it tries again
			found, foundText = fleet.Incomplete, failure(n, t)
		}
		if found != "" && (reason == "" || w.goesOn(n, reason)) { // a failure counts more
			reason, text = found, foundText
		}
	}
	return reason, text
}

// failure is why a generation of a set could not be completed when the node tried last.
func failure(n fleet.Node, t Target) string {
	for _, s := range n.Report.Sets {
		if s.Name == t.Name && s.LastFailedGeneration == t.Generation {
			return s.LastFailedGenerationError
		}
	}
	return ""
}

// goesOn reports whether a node is at work in spite of a problem: it pulls, or has yet to see that it is released, or
// has joined a moment ago.
func (w *waves) goesOn(n fleet.Node, reason string) bool {
	switch reason {
	case fleet.Pulling, fleet.Outdated, fleet.HeldBack:
		return true
	case fleet.NeverReported, fleet.FirstSync:
		return w.query.Now.Sub(n.Created) < w.query.Stale
	}
	return false
}

// late is how long after its release a node has reported that it is still at work, if that is longer than it may be;
// else 0. When it was released is not known, but when the last node was.
func (w *waves) late(n fleet.Node, reason string) time.Duration {
	limit, _ := w.deadline() // advance has checked it
	if limit == 0 && (reason == fleet.Outdated || reason == fleet.HeldBack) {
		limit = w.query.Stale
	}
	if limit == 0 || n.Report == nil {
		return 0
	}
	since := w.ReleasedAt
	for _, t := range []time.Time{w.Started, n.Created} {
		if t.After(since) {
			since = t
		}
	}
	if took := n.Report.Time.Sub(since); took > limit {
		return took
	}
	return 0
}
