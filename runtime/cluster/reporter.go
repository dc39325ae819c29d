package cluster

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
)

// reportResource are the reports in the API: deploy/nodeimagestatuses.yaml.
var reportResource = schema.GroupVersionResource{
	Group: fleet.Group, Version: fleet.Version, Resource: "nodeimagestatuses",
}

// fieldManager owns the fields that pinbox-node writes.
const fieldManager = "pinbox-node"

// reporter writes the reports of a node. One goroutine owns it.
type reporter struct {
	*follower
	reports  dynamic.ResourceInterface
	extra    *announcer
	problems map[string]string // that were logged last

	now, written fleet.Report
	owned        string // UID of the owner of the report that was written last
	firstSync    time.Time
	last         time.Time // when a report was written last
	due          time.Time // zero before the first status
	timer        *time.Timer
}

// report writes reports of the statuses that it receives, until ctx ends.
func (f *follower) report(ctx context.Context, c client) {
	r := reporter{
		follower: f, reports: c.sets.Resource(reportResource), extra: newAnnouncer(c, f.Node, f.Condition),
		problems: map[string]string{}, timer: time.NewTimer(time.Hour),
	}
	for {
		select {
		case <-ctx.Done():
			return
		case r.firstSync = <-f.synced: // no pass follows if the sets are the same
			r.schedule()
		case s := <-f.Statuses:
			r.now = fleet.NewReport(s)
			r.schedule()
		case <-r.timer.C:
			r.write(ctx)
		}
	}
}

// schedule sets when the report is written.
func (r *reporter) schedule() {
	if r.now.Time.IsZero() {
		return
	}
	if r.now.FirstSync.IsZero() { // else a pass has found it
		r.now.FirstSync = r.firstSync
	}
	next := r.last.Add(heartbeat)
	if !r.now.Same(r.written) {
		next = nextWrite(r.written, r.now, r.last, time.Now()).Add(jitter(r.Jitter))
	}
	if r.due.IsZero() || next.Before(r.due) {
		r.due = next
		r.timer.Reset(time.Until(r.due))
	}
}

// write writes the report, and sets when it is written again.
func (r *reporter) write(ctx context.Context) {
	if r.due.IsZero() {
		return
	}
	uid, _ := r.uid.Load().(string)
	err := write(ctx, r.reports, r.Node, uid, uid != r.owned, r.now)
	r.last = time.Now()
	r.due = r.last.Add(heartbeat + jitter(heartbeat/10))
	r.note(ctx, "the report of the node was not written", err)
	if err != nil {
		r.due = r.last.Add(whilePulling + jitter(atRest-whilePulling))
	} else {
		r.note(ctx, "the events of the node were not written", r.extra.events(ctx, r.now, uid))
		r.note(ctx, "the condition of the node was not written", r.extra.condition(ctx, r.now))
		r.written, r.owned = r.now, uid
	}
	r.timer.Reset(time.Until(r.due))
}

// note logs an error, unless it was logged last.
func (r *reporter) note(ctx context.Context, what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.problems[what] && text != "" && ctx.Err() == nil {
		r.Log.Warn(what, "error", err)
	}
	r.problems[what] = text
}

// jitter is a random time of at most so much.
func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}

// write writes a report, and makes the object if there is none, or adopts it if it is to have another owner. A
// generation must not decrease: if a set was deleted and made again since the last report, it is removed from that
// first.
func write(ctx context.Context, reports dynamic.ResourceInterface, node, uid string, adopt bool, r fleet.Report) error {
	if adopt {
		if err := own(ctx, reports, node, uid); err != nil {
			return err
		}
	}
	err := apply(ctx, reports, node, r)
	if apierrors.IsNotFound(err) {
		if err := own(ctx, reports, node, uid); err != nil {
			return err
		}
		err = apply(ctx, reports, node, r)
	}
	if apierrors.IsInvalid(err) {
		none := r
		none.Sets = []fleet.SetReport{}
		if err := apply(ctx, reports, node, none); err != nil {
			return err
		}
		err = apply(ctx, reports, node, r)
	}
	return err
}

// own makes the object, if there is none, and makes the Node its owner: the API removes the report of a Node that was
// removed.
func own(ctx context.Context, reports dynamic.ResourceInterface, node, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	o := fleet.NewObject(node, uid, nil)
	_, err := reports.Apply(ctx, node, unstructuredOf(o), metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// apply writes the status of the object.
func apply(ctx context.Context, reports dynamic.ResourceInterface, node string, r fleet.Report) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := reports.ApplyStatus(ctx, node, unstructuredOf(fleet.NewObject(node, "", &r)),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// unstructuredOf is an object as the dynamic client has it.
func unstructuredOf(o any) *unstructured.Unstructured {
	var fields map[string]any
	content, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(content, &fields)
	}
	if err != nil {
		panic(err) // the types here have no values that JSON has not
	}
	return &unstructured.Unstructured{Object: fields}
}

// Latest returns a function that hands on the latest status to a channel, which Follow reads.
func Latest() (statuses chan runtime.Status, send func(runtime.Status)) {
	statuses = make(chan runtime.Status, 1)
	return statuses, func(s runtime.Status) {
		select {
		case <-statuses: // an older one
		default:
		}
		statuses <- s
	}
}
