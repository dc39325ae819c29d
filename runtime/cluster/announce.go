package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// ConditionType is the type of the condition of a Node.
const ConditionType = "PinnedImagesReady"

// announcer says in events and in a condition of the Node what a report says.
type announcer struct {
	api  dynamic.Interface
	node string
	seen map[string]seen // by the class of the failure
}

// seen is a failure that there was an event for.
type seen struct {
	images, count int
	first         time.Time
}

// eventNamespace has the events of objects without a namespace: client-go's recorder.
const eventNamespace = metav1.NamespaceDefault

// events writes one event for each class of failures that is new, or has more images than before. It is the same object
// each time, with a count.
func (a *announcer) events(ctx context.Context, r fleet.Report, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	events := a.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(eventNamespace)
	now := time.Now().UTC().Truncate(time.Second)
	current := map[string]seen{}
	for _, f := range r.Failures {
		s := a.seen[f.Class]
		if f.Images <= s.images {
			s.images = f.Images
			current[f.Class] = s
			continue
		}
		if s.count == 0 {
			s.first = now
		}
		s.images, s.count = f.Images, s.count+1
		name := a.node + ".pinbox-" + strings.ReplaceAll(f.Class, " ", "-")
		event := map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]string{"name": name, "namespace": eventNamespace},
			"involvedObject": map[string]string{"apiVersion": "v1", "kind": "Node", "name": a.node, "uid": uid},
			"type":           "Warning", "reason": "PinnedImagesFailed",
			"message": fmt.Sprintf("%d images: %s: %s: %s", f.Images, f.Class, f.Image, f.Error),
			"count":   s.count, "firstTimestamp": s.first, "lastTimestamp": now,
			"source": map[string]string{"component": fieldManager, "host": a.node},
		}
		// Another run may have made an event of this name; a count goes on from here.
		force := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
		if _, err := events.Apply(ctx, name, unstructuredOf(event), force); err != nil {
			return err
		}
		current[f.Class] = s
	}
	for class, s := range a.seen {
		if _, fails := current[class]; !fails {
			s.images = 0
			current[class] = s
		}
	}
	a.seen = current
	return nil
}

// condition writes the condition of the Node.
func (a *announcer) condition(ctx context.Context, r fleet.Report) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c := map[string]any{
		"type": ConditionType, "status": "False", "reason": "Incomplete", "lastHeartbeatTime": metav1.NewTime(r.Time),
		"message": fmt.Sprintf("%d of %d images are pinned", r.Images.Pinned, r.Images.Total),
	}
	switch {
	case r.Ready:
		c["status"], c["reason"] = "True", "AllPinned"
	case len(r.Failures) > 0:
		c["reason"] = reason(r.Failures[0].Class)
		c["message"] = fmt.Sprintf("%s; %d images: %s", c["message"], r.Failures[0].Images, r.Failures[0].Class)
	case r.Pulling():
		c["reason"] = "Pulling"
	}
	if r.BytesToGo > 0 {
		c["message"] = fmt.Sprintf("%s; %s to go", c["message"], bytesize.Format(r.BytesToGo))
	}
	var changed time.Time
	for _, own := range r.Conditions {
		if own.LastTransitionTime.After(changed) {
			changed = own.LastTransitionTime
		}
	}
	c["lastTransitionTime"] = metav1.NewTime(changed)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{c}}})
	if err != nil {
		return err
	}
	_, err = a.api.Resource(nodeResource).Patch(ctx, a.node, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}

// reason is the class of an error in the form of a reason: NotFound.
func reason(class string) (text string) {
	for word := range strings.FieldsSeq(class) {
		text += strings.ToUpper(word[:1]) + word[1:]
	}
	return text
}
