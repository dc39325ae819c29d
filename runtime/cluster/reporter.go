package cluster

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pinbox/pinbox/runtime"
)

// The reports in the API: deploy/nodeimagestatuses.yaml.
var reportResource = schema.GroupVersionResource{
	Group: "pinbox.dev", Version: "v1alpha1", Resource: "nodeimagestatuses",
}

const (
	reportKind   = "NodeImageStatus"
	fieldManager = "pinbox-node"
)

// report writes reports of the statuses that it receives, until ctx ends.
func (f *follower) report(ctx context.Context, c client) {
	reports := c.sets.Resource(reportResource)
	var (
		written, now Report
		last         time.Time
		timer        = time.NewTimer(time.Hour)
		due          time.Time // zero if nothing is to be written
		problem      string
	)
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-f.Statuses:
			if now = NewReport(s); reflect.DeepEqual(now, written) {
				due = time.Time{}
				continue
			}
			if next := nextWrite(written, now, last, time.Now()).Add(jitter(f.Jitter)); due.IsZero() || next.Before(due) {
				due = next
				timer.Reset(time.Until(due))
			}
		case <-timer.C:
			if due.IsZero() {
				continue
			}
			err := write(ctx, reports, f.Node, now)
			last, due = time.Now(), time.Time{}
			if err == nil {
				written, problem = now, ""
				continue
			}
			if err.Error() != problem && ctx.Err() == nil {
				f.Log.Warn("the report of the node was not written", "error", err)
			}
			problem = err.Error()
			due = last.Add(whilePulling + jitter(atRest-whilePulling))
			timer.Reset(time.Until(due))
		}
	}
}

// jitter is a random time of at most so much.
func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}

// write writes a report, and makes the object first if there is none. A generation must not decrease: if a set was
// deleted and made again since the last report, it is removed from that first.
func write(ctx context.Context, reports dynamic.ResourceInterface, node string, r Report) error {
	err := apply(ctx, reports, node, r)
	if apierrors.IsNotFound(err) {
		by := metav1.CreateOptions{FieldManager: fieldManager}
		if _, err := reports.Create(ctx, reportObject(node, nil), by); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		err = apply(ctx, reports, node, r)
	}
	if apierrors.IsInvalid(err) {
		none := r
		none.Sets = []SetReport{}
		if err := apply(ctx, reports, node, none); err != nil {
			return err
		}
		err = apply(ctx, reports, node, r)
	}
	return err
}

// apply writes the status of the object.
func apply(ctx context.Context, reports dynamic.ResourceInterface, node string, r Report) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	content, err := json.Marshal(r)
	var status map[string]any
	if err == nil {
		err = json.Unmarshal(content, &status)
	}
	if err == nil {
		_, err = reports.ApplyStatus(ctx, node, reportObject(node, status),
			metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	}
	return err
}

func reportObject(node string, status map[string]any) *unstructured.Unstructured {
	object := map[string]any{
		"apiVersion": reportResource.GroupVersion().String(), "kind": reportKind, "metadata": map[string]any{"name": node},
	}
	if status != nil {
		object["status"] = status
	}
	return &unstructured.Unstructured{Object: object}
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
