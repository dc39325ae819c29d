package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/layout"
)

// kubeletUnits are the services that may run the kubelet: of its own, and MicroShift's.
var kubeletUnits = []systemd.Unit{"kubelet.service", "microshift.service"}

// ErrNotAdmitted means that the kubelet does not let pods use images of stores without a registry.
var ErrNotAdmitted = errors.New("the kubelet asks a registry before pods may use images of stores")

// admission decides whether the kubelet lets pods use the images of the mounted stores.
type admission struct {
	kubelet.Config
	mender kubelet.Mender
	// mends is what the configuration of the node says.
	mends bool
	// names are the IDs of the images by their names.
	names map[string]string
}

// readAdmission reads the names in the mounted stores. Errors of the configurations are reported by others.
func readAdmission(o Options, c kubelet.Config) (admission, error) {
	slots, _, others, _ := o.slots()
	names, err := stores.Names(append(slots, others...)...)
	config, _ := o.config()
	return admission{
		Config: c, names: names, mends: config.Kubelet == layout.KubeletMend && !o.readOnly,
		mender: kubelet.Mender{Dir: o.KubeletDir, Stopped: filepath.Join(o.State, "kubelet-stopped")},
	}, err
}

// check returns why pods may not use images.
func (a admission) check() error {
	var errs []error
	if refused := a.NotAdmitted(a.names); len(refused) > 0 {
		errs = append(errs, fmt.Errorf("%w: for %d images, the first %s, by %s in %s", ErrNotAdmitted, len(refused),
			refused[0], a.Policy, a.File))
	}
	blocking, err := kubelet.Blocking(a.mender.Dir, a.Recorded(a.names))
	for _, r := range blocking {
		errs = append(errs, fmt.Errorf("%w: %s", ErrNotAdmitted, r))
	}
	return errors.Join(append(errs, err)...)
}

// mend removes the kubelet's records of pulls that did not end, if the node is configured so.
func (a admission) mend(ctx context.Context) error {
	if !a.mends {
		return nil
	}
	a.mender.Service = kubeletService(ctx)
	_, err := a.mender.Mend(ctx, a.Recorded(a.names))
	return err
}

// kubeletService is the service that runs the kubelet; nil if there is none.
func kubeletService(ctx context.Context) kubelet.Service {
	if !systemd.Running() {
		return nil
	}
	for _, unit := range kubeletUnits {
		if unit.Loaded(ctx) {
			return unit
		}
	}
	return nil
}
