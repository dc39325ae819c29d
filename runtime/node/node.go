package node

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// DefaultCRIODir is the folder of CRI-O's configuration.
const DefaultCRIODir = "/etc/crio"

// Settings are the paths of a node, and the options of its passes. The zero value is a node that
// pinbox has built.
type Settings struct {
	// Pass are the options of a pass. Owner "" or "auto" detects whether the Machine Config Operator
	// manages the node; Node "" is the host name; Limits.GCPercent 0 is the kubelet's.
	Pass runtime.Options
	// Log has what passes do; nil for nothing.
	Log *slog.Logger
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
	// DryRun makes Attach, Detach, DetachUnused and Compact change nothing.
	DryRun bool
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
}

// Node is an opened node: its settings, and what other programs may change on it at any time, as it was when the node
// was opened. Its verbs are its methods; a pass opens it anew.
type Node struct {
	given Settings
	s     Settings // with their defaults
	// conf is the file of the settings. What cannot be read of it and of CRI-O's files has its defaults; the verbs that
	// need them return the errors.
	conf    layout.NodeConfig
	confErr error
	crio    crio.Effective
	crioErr error
	// rendered is the MachineConfig of the node, if it is managed.
	rendered rendered
	managed  bool
}

// Open returns the node with these settings.
func Open(s Settings) *Node {
	n := &Node{given: s}
	s.Socket = cmp.Or(s.Socket, cri.DefaultSocket)
	s.CRIODir = cmp.Or(s.CRIODir, DefaultCRIODir)
	s.Sets = cmp.Or(s.Sets, layout.SetsDir)
	s.Config = cmp.Or(s.Config, layout.NodeConfigPath)
	s.Keys = cmp.Or(s.Keys, layout.KeysDir)
	s.Status = cmp.Or(s.Status, layout.StatusPath)
	s.MetricsFile = cmp.Or(s.MetricsFile, filepath.Join(filepath.Dir(s.Status), "metrics.prom"))
	s.State = cmp.Or(s.State, layout.NodeDir)
	s.KubeletDir = cmp.Or(s.KubeletDir, kubelet.Dir)
	s.Reload = cmp.Or(s.Reload, "auto")
	if s.Pass.Node == "" {
		s.Pass.Node, _ = os.Hostname() // only messages have the name
		s.Pass.Node = cmp.Or(s.Pass.Node, "this node")
	}
	if s.Waiting == nil {
		s.Waiting = func(error) {}
	}
	n.s = s
	n.conf, n.confErr = layout.ReadNodeConfig(s.Config)
	root := filepath.Dir(filepath.Dir(filepath.Clean(s.CRIODir))) // storage.conf is in the same etc
	n.crio, n.crioErr = crio.ReadEffective(input.Dir(s.CRIODir), func(name string) ([]byte, error) {
		content, err := input.Config(filepath.Join(root, name))
		return content, fault.Ignore(err, fs.ErrNotExist)
	})
	n.rendered, n.managed = readRendered(s.CRIODir)
	return n
}

// reopen returns the node as it is now.
func (n *Node) reopen() *Node { return Open(n.given) }

// ask asks CRI-O what it runs with, since options of its command line may come before its files.
func (n *Node) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	n.crio.Ask(ctx, n.s.Socket)
}

// withPools is the node with the pools of an earlier status, if it has none by its settings.
func (n *Node) withPools(previous runtime.Status) *Node {
	if len(n.s.Pass.Pools) > 0 {
		return n
	}
	s := n.given
	s.Pass.Pools = previous.Pools
	return Open(s)
}

// stateDir is the folder of the state without symbolic links, as in /proc/self/mountinfo.
func (n *Node) stateDir() string {
	if path, err := filepath.EvalSymlinks(n.s.State); err == nil {
		return path
	}
	return n.s.State // it does not exist yet
}

// fits returns an ErrSpace if a file of so many bytes does not fit in the folder of the state.
func (n *Node) fits(bytes int64) error {
	space, err := disk.Measure(n.s.State)
	if err != nil {
		return err
	}
	return n.s.Pass.Limits.CheckFile(space, bytes)
}
