package node

import (
	"cmp"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/storage/layout"
)

// DefaultCRIODir is the folder of CRI-O's configuration.
const DefaultCRIODir = "/etc/crio"

// Options are the paths of a node, and the options of its passes. The zero value is a node that
// pinbox has built.
type Options struct {
	// Options of a pass. Owner "" or "auto" detects whether the Machine Config Operator
	// manages the node; Node "" is the host name; Limits.GCPercent 0 is the kubelet's.
	runtime.Options
	Hooks runtime.Hooks
	// Socket of CRI-O, and CRIODir the folder of its configuration.
	Socket, CRIODir string
	// Sets is the folder of the sets.
	Sets string
	// Config is the file of the node's settings, and Keys the folder of the keys that it trusts. Neither follows from the
	// place of something else.
	Config, Keys string
	// Kubeconfig is the file with the address of a cluster's API, whose sets count, too, and credentials; or
	// cluster.InCluster. Run follows them; every verb uses those that are known.
	Kubeconfig string
	// Condition means that Run writes a condition of the Node in the cluster.
	Condition bool
	// Jitter is the most by which Run delays a pass after a change in the cluster, at random.
	Jitter time.Duration
	// Status is the file of the status. The lock of passes is in the same folder.
	Status string
	// MetricsFile is the file of the metrics; "" is metrics.prom in the folder of the status. Run also serves them at
	// Metrics, an address of loopback, unless that is "".
	MetricsFile, Metrics string
	// State is the folder of the read-only stores and of the state.
	State string
	// Staging is the folder where CRI-O keeps blobs until they are unpacked; "" is the one
	// that CRI-O is configured with.
	Staging string
	// RegistriesConf and RegistriesDir replace those below /etc/containers.
	RegistriesConf, RegistriesDir string
	// Reload is how CRI-O is reloaded: by "systemd", by a "signal", or by a command; ""
	// or "auto" is by systemd where that runs, else by a signal.
	Reload string
	// CRIOLog is the file of CRI-O's log; "" means the journal.
	CRIOLog string
	// KubeletDir is the folder of the kubelet's state.
	KubeletDir string
	// Waiting is called once with the reason of a wait: ErrBusy, or stores.ErrNoBase. nil is
	// fine.
	Waiting func(error)

	// readOnly is for verbs that change nothing: they use the pools of the last pass, if no others
	// are given, and write no file.
	readOnly bool
}

// complete sets the defaults.
func (o Options) complete() Options {
	o.Socket = cmp.Or(o.Socket, cri.DefaultSocket)
	o.CRIODir = cmp.Or(o.CRIODir, DefaultCRIODir)
	o.Sets = cmp.Or(o.Sets, layout.SetsDir)
	o.Config = cmp.Or(o.Config, layout.NodeConfigPath)
	o.Keys = cmp.Or(o.Keys, layout.KeysDir)
	o.Status = cmp.Or(o.Status, layout.StatusPath)
	o.MetricsFile = cmp.Or(o.MetricsFile, filepath.Join(filepath.Dir(o.Status), "metrics.prom"))
	o.State = cmp.Or(o.State, layout.NodeDir)
	o.KubeletDir = cmp.Or(o.KubeletDir, kubelet.Dir)
	o.Reload = cmp.Or(o.Reload, "auto")
	if o.Node == "" {
		o.Node, _ = os.Hostname() // only messages have the name
		o.Node = cmp.Or(o.Node, "this node")
	}
	if o.Waiting == nil {
		o.Waiting = func(error) {}
	}
	return o
}

// stateDir is the folder of the state without symbolic links, as in /proc/self/mountinfo.
func (o Options) stateDir() string {
	if path, err := filepath.EvalSymlinks(o.State); err == nil {
		return path
	}
	return o.State // it does not exist yet
}

// fits returns an ErrSpace if a file of so many bytes does not fit in the folder of the state.
func (o Options) fits(bytes int64) error {
	space, err := disk.Measure(o.State)
	if err != nil {
		return err
	}
	return o.Limits.CheckFile(space, bytes)
}
