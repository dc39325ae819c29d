package kubelet

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Service is the service that runs the kubelet.
type Service interface {
	// Running reports whether it runs or starts.
	Running(context.Context) bool
	Stop(context.Context) error
	Start(context.Context) error
}

// Mender removes the records that keep pods from images of stores.
type Mender struct {
	// Dir is the folder of the kubelet's state.
	Dir string
	// Service of the kubelet; nil if there is none.
	Service Service
	// Stopped is a file that exists while Mend has stopped the kubelet. If Mend is interrupted, the
	// next one starts the kubelet.
	Stopped string
}

// Mend removes the records of images with these names. The kubelet keeps records of pulls that have
// ended in memory, so it is stopped while they are removed. It returns what it removed.
func (m Mender) Mend(ctx context.Context, names map[string]string) (removed []Record, err error) {
	if _, err := os.Stat(m.Stopped); err == nil && m.Service != nil {
		if err := m.start(ctx); err != nil {
			return nil, err
		}
	}
	blocking, err := Blocking(m.Dir, names)
	if err != nil || len(blocking) == 0 {
		return nil, err
	}
	ended := slices.ContainsFunc(blocking, func(r Record) bool { return !r.Pulling })
	if !ended || m.Service == nil || !m.Service.Running(ctx) {
		return remove(blocking)
	}
	if _, err := atomicfile.Write(m.Stopped, nil, 0o600); err != nil {
		return nil, err
	}
	if err = m.Service.Stop(ctx); err == nil {
		// Until it was stopped, it may have begun a pull.
		if blocking, err = Blocking(m.Dir, names); err == nil {
			removed, err = remove(blocking)
		}
	}
	return removed, errors.Join(err, m.start(context.WithoutCancel(ctx)))
}

// start starts the kubelet that an interrupted Mend, or this one, has stopped.
func (m Mender) start(ctx context.Context) error {
	if err := m.Service.Start(ctx); err != nil {
		return err
	}
	return os.Remove(m.Stopped)
}

func remove(records []Record) (removed []Record, err error) {
	for _, r := range records {
		if err := ignoreNotExist(os.Remove(r.Path)); err != nil {
			return removed, err
		}
		removed = append(removed, r)
	}
	return removed, nil
}
