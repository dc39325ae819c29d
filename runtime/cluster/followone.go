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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pinbox/pinbox/runtime"
)

// single is how one object is followed, that of the name of the node.
type single struct {
	what  string // in the log
	kind  kruntime.Object
	list  func(context.Context, metav1.ListOptions) (kruntime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	put   func(any)
}

// followOne follows one object. What is known of one that is gone stays.
func (f *follower) followOne(ctx context.Context, s single) {
	only := func(o metav1.ListOptions) metav1.ListOptions { o.FieldSelector = "metadata.name=" + f.Node; return o }
	replicate(ctx, &source{
		list:     func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) { return s.list(ctx, only(o)) },
		watch:    func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return s.watch(ctx, only(o)) },
		answered: f.logged(ctx, s.what),
	}, s.kind, store{
		list: func(objects []any, _ string) {
			for _, o := range objects {
				s.put(o)
			}
		},
		put: s.put,
	})
}

// logged returns a function that logs errors, each until another result follows.
func (f *follower) logged(ctx context.Context, what string) func(error) {
	last := ""
	return func(err error) {
		text := fmt.Sprint(err)
		if err != nil && text != last && ctx.Err() == nil {
			f.Log.Warn(what, "error", err)
		}
		last = text
	}
}

// followNode follows the labels of the node.
func (f *follower) followNode(ctx context.Context, c client) {
	nodes := c.nodes.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	f.followOne(ctx, single{
		what: "the node in the cluster", kind: &metav1.PartialObjectMetadata{}, watch: nodes.Watch,
		list: func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
			list, err := nodes.List(ctx, o)
			if err != nil {
				return nil, err
			}
			f.crowd.count(ctx, nodes)
			return list, nil
		},
		put: func(o any) {
			node := o.(*metav1.PartialObjectMetadata)
			roles := Roles(node.Labels)
			f.uid.Store(string(node.UID))
			f.update(ctx, func() bool { return f.known.register(roles) })
		},
	})
}

// followOperator follows the MachineConfigNode: what the Machine Config Operator reports of the sets.
func (f *follower) followOperator(ctx context.Context, c client) {
	nodes := c.sets.Resource(schema.GroupVersionResource{
		Group: mcfgv1.GroupName, Version: "v1", Resource: "machineconfignodes",
	})
	f.followOne(ctx, single{
		what: "the MachineConfigNode", kind: &unstructured.Unstructured{}, watch: nodes.Watch,
		list: func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) { return nodes.List(ctx, o) },
		put: func(o any) {
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
					LastFailedGeneration:      int64(s.LastFailedGeneration),
					LastFailedGenerationError: s.LastFailedGenerationError,
				})
			}
			f.update(ctx, func() (changed bool) {
				changed = !slices.Equal(f.known.Operator, sets)
				f.known.Operator = sets
				return changed
			})
		},
	})
}
