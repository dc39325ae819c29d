package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Service is the service that runs the kubelet.
type Service interface {
	// Running reports whether it runs or starts.
	Running(context.Context) bool
	Stop(context.Context) error
	Start(context.Context) error
}

// ErrRunning means that a kubelet runs that Mend cannot stop, as none of the units that it knows runs it.
var ErrRunning = errors.New("the kubelet runs, and pinbox-node does not know the unit that runs it")

// Running reports whether a kubelet with this folder of its state runs: it listens on the socket of its
// PodResources API (pkg/kubelet/apis/podresources/constants.go), whatever unit, container or program it is.
func Running(dir string) bool {
	conn, err := net.Dial("unix", filepath.Join(dir, "pod-resources/kubelet.sock"))
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
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
// ended in memory, so it is stopped while they are removed. If it cannot be stopped, these records stay, and
// the error is ErrRunning. Mend returns what it removed.
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
	var pulling, ended []Record
	for _, r := range blocking {
		if r.Pulling {
			pulling = append(pulling, r)
		} else {
			ended = append(ended, r)
		}
	}
	removed, err = remove(pulling)
	switch {
	case err != nil || len(ended) == 0:
		return removed, err
	case m.Service != nil && m.Service.Running(ctx): // stopped below
	case Running(m.Dir):
		return removed, fmt.Errorf("%w: stop it, run `pinbox-node firstboot`, which removes %s, and start it", ErrRunning,
			ended[0].Path)
	default:
		more, err := remove(ended)
		return append(removed, more...), err
	}
	if _, err := atomicfile.Write(m.Stopped, nil, 0o600); err != nil {
		return nil, err
	}
	if err = m.Service.Stop(ctx); err == nil {
		// Until it was stopped, it may have begun a pull.
		if blocking, err = Blocking(m.Dir, names); err == nil {
			var more []Record
			more, err = remove(blocking)
			removed = append(removed, more...)
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
