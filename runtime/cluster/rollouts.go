package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/pinbox/pinbox/runtime/rollout"
)

// rollouts has the rollouts of the API.
func (a API) rollouts() dynamic.ResourceInterface { return a.client.sets.Resource(rolloutResource) }

// listRollouts returns all rollouts; none if the API serves none.
func (a API) listRollouts(ctx context.Context) (all []rollout.Rollout, err error) {
	list, err := a.rollouts().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, apiError(err, "rollouts", ErrAPI)
	}
	for i := range list.Items {
		r, err := decodeRollout(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Advance writes the status of a rollout. It is an error if the object was changed since it was read, also by another
// controller.
func (a API) Advance(ctx context.Context, r rollout.Rollout) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := a.rollouts().UpdateStatus(ctx, unstructuredOf(r), metav1.UpdateOptions{FieldManager: byPinbox})
	if err != nil {
		return apiError(err, "rollout "+r.Metadata.Name, ErrNoRollout)
	}
	return nil
}
