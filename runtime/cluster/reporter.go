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
	reports dynamic.ResourceInterface
	extra   announcer

	now, written fleet.Report // now is zero before the first status
	exists       bool         // the object, as far as is known
	firstSync    time.Time
	pace         pace
	timer        *time.Timer
}

// report writes reports of the statuses that it receives, until ctx ends.
func (f *follower) report(ctx context.Context, c client) {
	r := reporter{
		follower: f, reports: c.sets.Resource(reportResource), extra: announcer{api: c.sets, node: f.Node},
		timer: time.NewTimer(time.Hour), exists: f.resumed, pace: pace{delayShare: rand.Float64()},
	}
	r.timer.Stop() // until there is a report
	for {
		select {
		case <-ctx.Done():
			return
		case r.firstSync = <-f.synced: // no pass follows if the sets are the same
			r.take(r.now)
		case s := <-f.Statuses:
			r.take(fleet.NewReport(s))
		case <-r.timer.C:
			r.write(ctx)
		}
	}
}

// take takes a report that is to be written.
func (r *reporter) take(now fleet.Report) {
	r.now = now
	if r.now.FirstSync.IsZero() { // else a pass has found it
		r.now.FirstSync = r.firstSync
	}
	r.pace.plan(r.written, r.now, time.Now())
	r.schedule()
}

// schedule sets when the report is written, if there is one.
func (r *reporter) schedule() {
	if !r.now.Time.IsZero() {
		r.timer.Reset(max(time.Until(r.pace.due(spread*r.Jitter)), 0))
	}
}

// write writes the report, and sets when it is written again.
func (r *reporter) write(ctx context.Context) {
	uid, _ := r.uid.Load().(string)
	err := write(ctx, r.reports, r.Node, uid, r.exists, r.now)
	r.pace = pace{last: time.Now(), failed: err != nil, delayShare: rand.Float64()}
	r.note(ctx, "the report of the node was not written", err)
	if err == nil {
		r.note(ctx, "the events of the node were not written", r.extra.events(ctx, r.now, uid))
		if r.Condition {
			r.note(ctx, "the condition of the node was not written", r.extra.condition(ctx, r.now))
		}
		r.written, r.exists = r.now, true
	}
	r.schedule()
}

// write writes a report. It makes the object if there is none, and adopts it if it has another owner. A generation must
// not decrease: if a set was deleted and made again since the last report, it is removed from that first.
func write(
	ctx context.Context, reports dynamic.ResourceInterface, node, uid string, exists bool, r fleet.Report,
) error {
	if !exists {
		if err := own(ctx, reports, node, uid); err != nil {
			return err
		}
	}
	owner, err := apply(ctx, reports, node, r)
	if exists && apierrors.IsNotFound(err) {
		return write(ctx, reports, node, uid, false, r)
	}
	if apierrors.IsInvalid(err) {
		none := r
		none.Sets = []fleet.SetReport{}
		if _, err := apply(ctx, reports, node, none); err != nil {
			return err
		}
		owner, err = apply(ctx, reports, node, r)
	}
	if err == nil && owner != uid && uid != "" {
		err = own(ctx, reports, node, uid)
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

// apply writes the status of the object, and returns the UID of the object's owner.
func apply(ctx context.Context, reports dynamic.ResourceInterface, node string, r fleet.Report) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	o, err := reports.ApplyStatus(ctx, node, unstructuredOf(fleet.NewObject(node, "", &r)),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return "", err
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "Node" {
			return string(owner.UID), nil
		}
	}
	return "", nil
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
