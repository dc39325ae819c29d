package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/fault"
)

// kubeletUnits are the services that may run the kubelet: of its own, and MicroShift's.
var kubeletUnits = []systemd.Unit{"kubelet.service", "microshift.service"}

// ErrNotAdmitted means that the kubelet does not let pods use images of stores without a registry.
var ErrNotAdmitted = fault.New(fault.Other, "the kubelet asks a registry before pods may use images of stores",
	"stop the kubelet, remove the file and start it; a policy admits images by preloadedImagesVerificationAllowlist")

// admission decides whether the kubelet lets pods use the images of the mounted stores.
type admission struct {
	kubelet.Config
	// dir is the folder of the kubelet's state.
	dir string
	// names are the IDs of the images by their names.
	names map[string]string
}

// readAdmission reads the names in the mounted stores. Errors of the configurations are reported by others.
func (n *Node) readAdmission(c kubelet.Config) (admission, error) {
	slots, _, others := n.slots()
	names, err := stores.Names(append(slots, others...)...)
	return admission{Config: c, dir: kubelet.Dir, names: names}, err
}

// check returns why pods may not use images, which pods these are, and what cures it.
func (a admission) check(ctx context.Context, client *cri.Client) error {
	var errs []error
	if refused := a.NotAdmitted(a.names); len(refused) > 0 {
		errs = append(errs, fmt.Errorf("%w: for %d images, the first %s, by %s in %s", ErrNotAdmitted, len(refused),
			refused[0], a.Policy, a.File))
	}
	blocking, err := kubelet.Blocking(a.dir, a.Recorded(a.names))
	if len(blocking) == 0 {
		return errors.Join(append(errs, err)...)
	}
	pods, _ := client.Pods(ctx) // the pass reports a CRI-O that does not answer
	cure := a.cure(ctx)
	for _, r := range blocking {
		errs = append(errs, fmt.Errorf("%w: %s%s: %s", ErrNotAdmitted, r, concerned(pods, r.Image, a.names[r.Image]), cure))
	}
	return errors.Join(append(errs, err)...)
}

// concerned lists the pods that need an image, given by its name and its ID: those that have a container of
// it, which cannot be started again, and those that still wait for an image, perhaps this one.
func concerned(pods []cri.Pod, name, id string) (list string) {
	var with, waiting []string
	for _, pod := range pods {
		switch {
		case len(pod.Images) == 0:
			waiting = append(waiting, pod.Name)
		case slices.Contains(pod.Images, name) || slices.Contains(pod.Images, id):
			with = append(with, pod.Name)
		}
	}
	for _, group := range []struct {
		what string
		pods []string
	}{{"pods that have it", with}, {"pods that wait for an image", waiting}} {
		if n := len(group.pods) - maxPods; n > 0 {
			group.pods = append(group.pods[:maxPods], fmt.Sprintf("and %d others", n))
		}
		if len(group.pods) > 0 {
			list += fmt.Sprintf("; %s: %s", group.what, strings.Join(group.pods, ", "))
		}
	}
	return list
}

// maxPods limits the pods that an error lists, for a line that can be read.
const maxPods = 10

// cure is how the records are removed.
func (a admission) cure(ctx context.Context) string {
	unit, known := kubeletService(ctx)
	switch {
	case known:
		return fmt.Sprintf("stop %s, remove the file, and start it", unit)
	case kubelet.Running(a.dir):
		return fmt.Sprintf("neither of the units %s and %s runs this kubelet: stop it, remove the file, and start it",
			kubeletUnits[0], kubeletUnits[1])
	}
	return "remove the file before the kubelet starts"
}

// kubeletService is the service that runs the kubelet, if it is known.
func kubeletService(ctx context.Context) (unit systemd.Unit, known bool) {
	if !systemd.Running() {
		return "", false
	}
	for _, unit := range kubeletUnits {
		if unit.Loaded(ctx) {
			return unit, true
		}
	}
	return "", false
}
