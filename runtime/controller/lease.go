package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// lease is the Lease of the controller that leads, as this controller sees it. It is used as package leaderelection of
// client-go uses it, which would link the clients of all resources of Kubernetes: each command of the program would
// take 11 MB more.
//
// No two clocks are compared: a Lease has expired if it has not changed for its duration, by the clock of who looks.
type lease struct {
	api      dynamic.ResourceInterface
	identity string
	duration time.Duration
	log      *slog.Logger

	holder  string                     // the last that was seen
	version string                     // of the Lease that was seen last
	since   time.Time                  // when this version was seen first
	own     *unstructured.Unstructured // the Lease as this controller wrote it; nil if it may have changed since
	said    string                     // the last error
}

// take takes the Lease, or renews it, unless another controller holds it. It reports whether this one holds it then.
func (l *lease) take(ctx context.Context) (held bool, err error) {
	if own := l.own; own != nil {
		if l.own, err = l.api.Update(ctx, l.claim(own), metav1.UpdateOptions{}); err == nil {
			return true, nil
		}
		l.own = nil // it has changed, or the answer was lost
	}
	found, err := l.api.Get(ctx, LeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		found, err = l.api.Create(ctx, l.claim(nil), metav1.CreateOptions{})
	case err == nil && l.heldByOther(found):
		return false, nil
	case err == nil: // a conflict if another controller is faster
		found, err = l.api.Update(ctx, l.claim(found), metav1.UpdateOptions{})
	}
	if err != nil {
		return false, err
	}
	l.own = found
	l.sees(l.identity)
	return true, nil
}

// heldByOther reports whether another controller holds a Lease that has not expired.
func (l *lease) heldByOther(found *unstructured.Unstructured) bool {
	if version := found.GetResourceVersion(); version != l.version {
		l.version, l.since = version, time.Now()
	}
	holder, _, _ := unstructured.NestedString(found.Object, "spec", "holderIdentity")
	seconds, _, _ := unstructured.NestedInt64(found.Object, "spec", "leaseDurationSeconds")
	if holder == "" || holder == l.identity || time.Since(l.since) > time.Duration(seconds)*time.Second {
		return false
	}
	l.sees(holder)
	return true
}

func (l *lease) sees(holder string) {
	if holder != l.holder {
		l.log.Info("leads", "controller", holder)
		l.holder = holder
	}
}

// claim returns the Lease that this controller holds, instead of the one that was found, which may be nil.
func (l *lease) claim(found *unstructured.Unstructured) *unstructured.Unstructured {
	now := time.Now().UTC().Format(metav1.RFC3339Micro)
	spec := map[string]any{
		"holderIdentity": l.identity, "leaseDurationSeconds": int64((l.duration + time.Second - 1) / time.Second),
		"acquireTime": now, "renewTime": now, "leaseTransitions": int64(0),
	}
	if found == nil {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": LeaseName}, "spec": spec,
		}}
	}
	found = found.DeepCopy()
	was, _, _ := unstructured.NestedMap(found.Object, "spec")
	transitions, _ := was["leaseTransitions"].(int64)
	spec["leaseTransitions"] = transitions + 1
	if was["holderIdentity"] == l.identity {
		spec["leaseTransitions"] = transitions
		if was["acquireTime"] != nil {
			spec["acquireTime"] = was["acquireTime"]
		}
	}
	found.Object["spec"] = spec
	return found
}

// hold calls lead whenever this controller holds the Lease, until ctx ends.
func (l *lease) hold(ctx context.Context, lead func(context.Context)) {
	for {
		if asked, held, _ := l.try(ctx); held {
			l.leads(ctx, asked, lead)
		}
		if !pause(ctx, l.duration*2/15) {
			return
		}
	}
}

// try is take that logs an error, unless it is the one before, and says when it began.
func (l *lease) try(ctx context.Context) (asked time.Time, held bool, err error) {
	asked = time.Now()
	attempt, cancel := context.WithTimeout(ctx, l.duration*2/3)
	defer cancel()
	held, err = l.take(attempt)
	if err == nil || ctx.Err() != nil {
		l.said = ""
	} else if text := err.Error(); text != l.said {
		l.log.Warn("the Lease is not taken or renewed", "error", err)
		l.said = text
	}
	return asked, held, err
}

// leads calls lead, and renews the Lease. The context of lead ends when two thirds of the duration of the Lease have
// passed since it was renewed, before another controller takes it. leads returns when lead has ended.
func (l *lease) leads(ctx context.Context, renewed time.Time, lead func(context.Context)) {
	term := l.duration * 2 / 3
	leading, stop := context.WithCancel(ctx)
	deadline := time.AfterFunc(time.Until(renewed.Add(term)), stop)
	defer deadline.Stop()
	var led sync.WaitGroup
	led.Go(func() { lead(leading) })
	for pause(leading, l.duration*2/15) {
		asked, held, err := l.try(leading)
		if held {
			deadline.Reset(time.Until(asked.Add(term)))
		} else if err == nil { // another controller holds it
			break
		}
	}
	stop()
	led.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), term)
	defer cancel()
	if err := l.release(last); err != nil {
		l.log.Warn("the Lease is not released", "error", err)
	}
}

// release lets another controller take the Lease at once.
func (l *lease) release(ctx context.Context) error {
	if l.own == nil {
		return nil
	}
	free := l.claim(l.own)
	unstructured.RemoveNestedField(free.Object, "spec", "holderIdentity")
	l.own, l.holder = nil, ""
	_, err := l.api.Update(ctx, free, metav1.UpdateOptions{})
	return err
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}
