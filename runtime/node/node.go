package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// Settings are those of a call. The zero value is a node that pinbox has built.
type Settings struct {
	// Config is the file of the node's settings; "" means layout.NodeConfigPath.
	Config string
	// Set has settings "NAME=VALUE" in place of those of the file.
	Set []string
	// Wait is how long to wait for CRI-O, or for another process. AnyWait means that the file may set another time.
	Wait    time.Duration
	AnyWait bool
	// DryRun makes Attach, Detach, DetachUnused and Compact change nothing.
	DryRun bool
	// Log has what passes do; nil for nothing.
	Log *slog.Logger
	// Waiting is called once with the reason of a wait: ErrBusy, or stores.ErrNoBase. nil is
	// fine.
	Waiting func(error)
}

// Node is an opened node: its settings, and what other programs may change on it at any time, as it was when the node
// was opened. Its verbs are its methods; a pass opens it anew.
type Node struct {
	s Settings
	// conf is the file of the settings, with their defaults. What cannot be read of it and of CRI-O's files has its
	// defaults; the verbs that need them return the errors.
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
	s.Config = cmp.Or(s.Config, layout.NodeConfigPath)
	if s.Waiting == nil {
		s.Waiting = func(error) {}
	}
	n := &Node{s: s}
	n.conf, n.confErr = layout.ReadNodeConfig(s.Config)
	for _, text := range s.Set {
		n.confErr = errors.Join(n.confErr, n.conf.Set(text))
	}
	c := &n.conf
	if s.AnyWait {
		n.s.Wait = cmp.Or(time.Duration(c.Wait), s.Wait)
	}
	for _, setting := range []struct {
		of    *string
		value string
	}{
		{&c.Socket, cri.DefaultSocket}, {&c.CRIODir, "/etc/crio"}, {&c.SetsDir, layout.SetsDir}, {&c.KeysDir, layout.KeysDir},
		{&c.StateDir, layout.NodeDir}, {&c.Status, layout.StatusPath}, {&c.Reload, "auto"},
	} {
		*setting.of = cmp.Or(*setting.of, setting.value)
	}
	c.MetricsFile = cmp.Or(c.MetricsFile, filepath.Join(filepath.Dir(c.Status), "metrics.prom"))
	if c.NodeName == "" {
		c.NodeName, _ = os.Hostname() // only messages have the name
		c.NodeName = cmp.Or(c.NodeName, "this node")
	}
	root := filepath.Dir(filepath.Dir(filepath.Clean(c.CRIODir))) // storage.conf is in the same etc
	n.crio, n.crioErr = crio.ReadEffective(input.Dir(c.CRIODir), func(name string) ([]byte, error) {
		content, err := input.Config(filepath.Join(root, name))
		return content, fault.Ignore(err, fs.ErrNotExist)
	})
	n.rendered, n.managed = readRendered(c.CRIODir)
	return n
}

// Socket is that of CRI-O.
func (n *Node) Socket() string { return n.conf.Socket }

// reopen returns the node as it is now.
func (n *Node) reopen() *Node { return Open(n.s) }

// ask asks CRI-O what it runs with, since options of its command line may come before its files.
func (n *Node) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	n.crio.Ask(ctx, n.conf.Socket)
}

// withPools is the node with the pools of an earlier status, if it has none by its settings.
func (n *Node) withPools(previous runtime.Status) *Node {
	if len(n.conf.Pools) > 0 || len(previous.Pools) == 0 {
		return n
	}
	s := n.s
	s.Set = append(slices.Clone(s.Set), "pools="+strings.Join(previous.Pools, ","))
	return Open(s)
}

// passOptions are the options of a pass.
func (n *Node) passOptions() runtime.Options {
	c := n.conf
	o := runtime.Options{
		Node: c.NodeName, Pools: c.Pools, Owner: n.owner(), Parallel: c.Parallel, Rate: c.Rate,
		Prune: c.Prune, Retry: runtime.Retry{First: time.Duration(c.Retry)}, Stall: time.Duration(c.Stall), Wait: n.s.Wait,
	}
	o.Limits.Reserve, o.Limits.GCPercent = n.reserve(), c.GCThreshold
	return o
}

// reserve is the space to leave free.
func (n *Node) reserve() bytesize.Reserve {
	if n.conf.Reserve == nil {
		return runtime.DefaultReserve
	}
	return *n.conf.Reserve
}

// stateDir is the folder of the state without symbolic links, as in /proc/self/mountinfo.
func (n *Node) stateDir() string {
	if path, err := filepath.EvalSymlinks(n.conf.StateDir); err == nil {
		return path
	}
	return n.conf.StateDir // it does not exist yet
}

// fits returns an ErrSpace if a file of so many bytes does not fit in the folder of the state.
func (n *Node) fits(bytes int64) error {
	space, err := disk.Measure(n.conf.StateDir)
	if err != nil {
		return err
	}
	return runtime.Limits{Node: n.conf.NodeName, Reserve: n.reserve()}.CheckFile(space, bytes)
}
