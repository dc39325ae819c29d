package cluster

import (
	"context"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pinbox/pinbox/runtime"
)

// followNode follows the labels of the node.
func (f *follower) followNode(ctx context.Context, c client) {
	nodes := c.nodes.Resource(nodeResource)
	replicate(ctx, &source{
		only: f.Node, watch: nodes.Watch,
		list:     func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) { return nodes.List(ctx, o) },
		answered: func(err error) { f.note(ctx, "the node in the cluster", err) },
	}, &metav1.PartialObjectMetadata{}, store{put: func(o any) {
		node := o.(*metav1.PartialObjectMetadata) // the type of the source
		roles := Roles(node.Labels)
		f.uid.Store(string(node.UID))
		f.update(ctx, func() bool { return f.known.register(roles) })
	}})
}

// followOperator follows the MachineConfigNode: what the Machine Config Operator reports of the sets.
func (f *follower) followOperator(ctx context.Context, c client) {
	nodes := c.sets.Resource(schema.GroupVersionResource{
		Group: mcfgv1.GroupName, Version: "v1", Resource: "machineconfignodes",
	})
	replicate(ctx, &source{
		only: f.Node, watch: nodes.Watch,
		list:     func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) { return nodes.List(ctx, o) },
		answered: func(err error) { f.note(ctx, "the MachineConfigNode", err) },
	}, &unstructured.Unstructured{}, store{put: func(o any) {
		var node mcfgv1.MachineConfigNode
		err := kruntime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object, &node)
		if err != nil {
			f.Log.Warn("the MachineConfigNode", "error", err)
			return
		}
		var sets []runtime.OperatorSet
		for _, s := range node.Status.PinnedImageSets {
			sets = append(sets, runtime.OperatorSet{
				Name: s.Name, CurrentGeneration: int64(s.CurrentGeneration), DesiredGeneration: int64(s.DesiredGeneration),
				LastFailedGeneration: int64(s.LastFailedGeneration), LastFailedGenerationError: s.LastFailedGenerationError,
			})
		}
		f.update(ctx, func() (changed bool) {
			changed = !slices.Equal(f.known.Operator, sets)
			f.known.Operator = sets
			return changed
		})
	}})
}

// note logs an error of a request, unless it was logged last. It is for all goroutines.
func (f *follower) note(ctx context.Context, what string, err error) {
	text := fmt.Sprint(err)
	last, _ := f.noted.Swap(what, text)
	if err != nil && text != last && ctx.Err() == nil {
		f.Log.Warn(what, "error", err)
	}
}
