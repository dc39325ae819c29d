package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/rollout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of a rollout that is changed.
var (
	ErrNoRollout  = errors.New("the cluster has no such rollout")
	ErrNoPrevious = errors.New("nobody noted what the set had before")
)

// byPinbox is who writes rollouts and sets.
const byPinbox = "pinbox"

// Apply writes a rollout, and then each of the sets that has changed, with the label of the rollout and what it had
// before. It returns the names of these. It may be repeated: what is written already stays.
func (a API) Apply(
	ctx context.Context, name string, spec rollout.Spec, sets []pinset.Set,
) (changed []string, err error) {
	r := rollout.Rollout{
		APIVersion: fleet.Group + "/" + fleet.Version, Kind: rollout.Kind, Metadata: rollout.Metadata{Name: name}, Spec: spec,
	}
	force := metav1.ApplyOptions{FieldManager: byPinbox, Force: true} // spec.paused is another manager's, and stays
	written, err := a.rollouts().Apply(ctx, name, unstructuredOf(r), force)
	if err == nil {
		r, err = decodeRollout(written)
	}
	if err != nil {
		return nil, apiError(err, "rollout "+name, ErrNoRollout)
	}
	list, api, err := a.listSets(ctx)
	if err != nil {
		return nil, apiError(err, "sets", ErrAPI)
	}
	for _, set := range sets {
		u, err := change(list, r, set)
		switch {
		case err == nil && u == nil:
			continue
		case err == nil && u.GetResourceVersion() == "":
			_, err = api.Create(ctx, u, metav1.CreateOptions{FieldManager: byPinbox})
		case err == nil: // nobody has changed it since
			_, err = api.Update(ctx, u, metav1.UpdateOptions{FieldManager: byPinbox})
		}
		if err != nil {
			return changed, apiError(err, "set "+set.Name, ErrAPI)
		}
		changed = append(changed, set.Name)
	}
	return changed, nil
}

// apiError says what the API refuses; none is the error if it is not there.
func apiError(err error, what string, none error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %s", none, what)
	}
	return fmt.Errorf("%w: %s: %w", ErrAPI, what, err)
}

// change returns the object of a set with other images, nil if it has these.
func change(
	list *unstructured.UnstructuredList, r rollout.Rollout, set pinset.Set,
) (*unstructured.Unstructured, error) {
	var images []string
	for _, img := range set.Images {
		images = append(images, img.String())
	}
	labels := maps.Clone(set.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[rollout.Label] = r.Metadata.Name
	u, before := &unstructured.Unstructured{Object: map[string]any{}}, Content{Images: []string{}}
	u.SetAPIVersion(list.GetAPIVersion())
	u.SetKind(pinset.Kind)
	u.SetName(set.Name)
	named := func(o unstructured.Unstructured) bool { return o.GetName() == set.Name }
	if i := slices.IndexFunc(list.Items, named); i >= 0 {
		u = &list.Items[i]
		now, err := object(u)
		if err != nil || now.Rollout == r.Metadata.Name && slices.Equal(now.Images, images) &&
			now.Store == set.Store {
			return nil, err
		}
		before = Content{now.Generation, now.Images}
		if now.previous != nil && now.Rollout == r.Metadata.Name && !r.Status.Finished(now.target()) {
			before = *now.previous // the present generation was never on all nodes
		}
	}
	rewrite(u, labels, &before, images)
	if set.Store != "" {
		annotations := u.GetAnnotations() // it has one
		annotations[pinset.StoreAnnotation] = set.Store
		u.SetAnnotations(annotations)
	}
	return u, nil
}

// rewrite gives the object of a set more labels, what it had before, and images.
func rewrite(u *unstructured.Unstructured, labels map[string]string, before *Content, images []string) {
	all, annotations := u.GetLabels(), u.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(all, rollout.Label)
	delete(annotations, rollout.PreviousAnnotation)
	delete(annotations, pinset.StoreAnnotation) // of other images
	maps.Copy(all, labels)
	if before != nil {
		text, _ := json.Marshal(before) // it has a number and strings
		annotations[rollout.PreviousAnnotation] = string(text)
	}
	u.SetLabels(all)
	u.SetAnnotations(annotations)
	var pins []any
	for _, img := range images {
		pins = append(pins, map[string]any{"name": img})
	}
	_ = unstructured.SetNestedSlice(u.Object, pins, "spec", "pinnedImages") // the spec of a set is an object
}

// Pause pauses a rollout, or resumes it.
func (a API) Pause(ctx context.Context, name string, paused bool) error {
	patch := fmt.Appendf(nil, `{"spec": {"paused": %t}}`, paused)
	options := metav1.PatchOptions{FieldManager: byPinbox + "-pause"}
	_, err := a.rollouts().Patch(ctx, name, types.MergePatchType, patch, options)
	if err != nil {
		return apiError(err, name, ErrNoRollout)
	}
	return nil
}

// Rollback gives the sets of a rollout what they had before, and takes its label from them: all nodes follow at once,
// whether a controller runs or not. A set that is new is deleted. It returns the names of the sets.
func (a API) Rollback(ctx context.Context, name string) (names []string, err error) {
	list, api, err := a.listSets(ctx)
	if err != nil {
		return nil, apiError(err, "sets", ErrAPI)
	}
	before := map[string]*Content{}
	for _, u := range list.Items {
		if u.GetLabels()[rollout.Label] == name {
			names = append(names, u.GetName())
			before[u.GetName()] = previous(u.GetAnnotations())
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no set has the label %s: %s", ErrNoRollout, rollout.Label, name)
	}
	for _, set := range names {
		if before[set] == nil {
			return nil, fmt.Errorf("%w: %s", ErrNoPrevious, set)
		}
	}
	for _, u := range list.Items {
		c, version := before[u.GetName()], u.GetResourceVersion()
		switch {
		case c == nil:
			continue
		case len(c.Images) == 0:
			unchanged := metav1.Preconditions{ResourceVersion: &version}
			err = api.Delete(ctx, u.GetName(), metav1.DeleteOptions{Preconditions: &unchanged})
		default:
			rewrite(&u, nil, nil, c.Images)
			_, err = api.Update(ctx, &u, metav1.UpdateOptions{FieldManager: byPinbox})
		}
		if err != nil {
			return nil, apiError(err, "set "+u.GetName(), ErrAPI)
		}
	}
	return names, nil
}
