package cluster

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/rollout"
)

// rolloutResource are the rollouts in the API: deploy/rollouts.yaml.
var rolloutResource = schema.GroupVersionResource{Group: fleet.Group, Version: fleet.Version, Resource: "rollouts"}

// waves is what a node knows of rollouts. It is not in the document: that has what was released.
type waves struct {
	followed bool
	rollouts map[string]rollout.Rollout
	place    int64 // of the node; 0 before that is known
}

// after decides what counts of a set that the API has: until a rollout releases it, what counted before.
func (s Set) after(before Set) Set {
	switch {
	case s.Rollout == "", before.Held == nil && before.UID == s.UID && before.Generation == s.Generation:
	case before.Held != nil && before.Held.Generation > 0:
		s.Held = before.Held
	case before.Held == nil && before.Name != "":
		s.Held = &Content{before.Generation, before.Images}
	case s.previous != nil:
		s.Held = s.previous
	default:
		s.Held = &Content{Images: []string{}}
	}
	return s
}

// target is the generation of a set that a rollout releases.
func (s Set) target() rollout.Target {
	return rollout.Target{Name: s.Name, UID: s.UID, Generation: s.Generation}
}

// previous reads the annotation of a set; nil without one that can be read.
func previous(annotations map[string]string) *Content {
	c := &Content{Images: []string{}}
	if json.Unmarshal([]byte(annotations[rollout.PreviousAnnotation]), c) != nil || c.check() != nil {
		return nil
	}
	return c
}

// followWaves follows the rollouts as soon as a set names one, so that a cluster without any is not asked for them. It
// reports whether a set was released.
func (f *follower) followWaves(ctx context.Context) (released bool) {
	working := int64(0)
	for i := range f.known.Sets {
		s := &f.known.Sets[i]
		if s.Rollout != "" && !f.waves.followed && f.client.sets != nil {
			f.waves.followed, f.waves.rollouts = true, map[string]rollout.Rollout{}
			go f.followRollouts(ctx, f.client)
		}
		if s.Held != nil && f.waves.rollouts[s.Rollout].Status.Releases(s.target(), f.waves.place) {
			s.Held, released = nil, true
		}
		if status := f.waves.rollouts[s.Rollout].Status; s.Held == nil && status.Releases(s.target(), f.waves.place) &&
			!status.Finished(s.target()) {
			working = max(working, int64(status.Nodes.Released-status.Nodes.Ready), 1)
		}
	}
	f.crowd.working.Store(working)
	return released
}

// followRollouts follows the rollouts.
func (f *follower) followRollouts(ctx context.Context, c client) {
	api := c.sets.Resource(rolloutResource)
	put := func(o any) {
		r, err := decodeRollout(o)
		if err != nil {
			f.Log.Warn("a rollout of the cluster", "error", err)
			return
		}
		f.update(ctx, func() bool { f.waves.rollouts[r.Metadata.Name] = r; return false })
	}
	remove := func(name string) { f.update(ctx, func() bool { delete(f.waves.rollouts, name); return false }) }
	replicate(ctx, &source{
		list:     func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) { return api.List(ctx, o) },
		watch:    api.Watch,
		answered: f.logged(ctx, "the rollouts of the cluster"),
	}, &unstructured.Unstructured{}, store{
		list: func(objects []any, _ string) {
			f.update(ctx, func() bool { clear(f.waves.rollouts); return false })
			for _, o := range objects {
				put(o)
			}
		},
		put:    put,
		remove: func(o any) { remove(o.(*unstructured.Unstructured).GetName()) },
	})
}

// decodeRollout reads an object of the dynamic client.
func decodeRollout(o any) (rollout.Rollout, error) {
	content, err := json.Marshal(o)
	if err != nil {
		return rollout.Rollout{}, err
	}
	return rollout.Decode(content)
}

// HeldBack returns the sets whose generation is not released to the node.
func (k *Known) HeldBack() (held []runtime.HeldSet) {
	for _, s := range k.Sets {
		if s.Held != nil {
			held = append(held, runtime.HeldSet{Name: s.Name, Generation: s.Generation, Rollout: s.Rollout})
		}
	}
	return held
}
