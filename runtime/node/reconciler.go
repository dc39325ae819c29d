package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/aside"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/runtime/registry"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// The packages that implement the interfaces of runtime.
var (
	_ runtime.Runtime   = (*cri.Client)(nil)
	_ runtime.Images    = (*cri.Client)(nil)
	_ runtime.Pins      = (*crio.Pins)(nil)
	_ runtime.Manifests = registry.Client{}
	_ runtime.Disk      = stores.Disk{}
	_ runtime.Aside     = aside.Records{}
	_ runtime.Service   = systemd.Service{}
	_ runtime.Volumes   = ownStore{}
	_ runtime.Node      = (*machine)(nil)
	_ runtime.Stores    = (*machine)(nil)
)

// machine is a node as its reconciler sees it.
type machine struct {
	node   *Node
	client *cri.Client
	// readOnly is for verbs that change nothing: they write no file.
	readOnly bool
	// direct means that this process copies image volumes, and not their unit.
	direct bool
	// self is the program of this process, once it was read.
	self pinset.Program
	// metrics serves those of each status, and report hands it to the cluster; nil for none.
	metrics *metricsServer
	report  func(runtime.Status)
	// wanted is the record of the images that pods wanted, once it was read.
	wanted wanted.Record
}

// Reconciler returns a reconciler that continues from the status of the last pass. The caller
// calls end.
func (n *Node) Reconciler() (r *runtime.Reconciler, end func(), err error) {
	return n.reconciler(false)
}

// reconciler is Reconciler. One that only reads has the pools of the last pass, if the node has none by its settings.
func (n *Node) reconciler(readOnly bool) (r *runtime.Reconciler, end func(), err error) {
	previous, noPrevious := statusFile(n.conf.Status).load()
	if noPrevious == nil && readOnly {
		n = n.withPools(previous)
	}
	client, err := cri.Dial(n.conf.Socket)
	if err != nil {
		return nil, nil, err
	}
	m := &machine{node: n, client: client, readOnly: readOnly}
	r = &runtime.Reconciler{
		Runtime: client, Images: client, Node: m, Stores: m, Log: n.s.Log,
		Pins: &crio.Pins{Dir: n.conf.CRIODir, Reload: n.reloader(), Log: n.logReader()},
	}
	if noPrevious == nil {
		r.Continue(previous)
	}
	return r, func() { client.Close() }, nil
}

// Configure implements runtime.Node: it reads what other programs may change on the node at any time.
func (m *machine) Configure(ctx context.Context) (conf runtime.Configuration, err error) {
	n := m.node.reopen()
	m.node = n
	n.ask(ctx)
	conf.Options = n.passOptions()
	o := &conf.Options
	controlPlane := slices.Contains(o.Pools, "master") || slices.Contains(o.Pools, "control-plane")
	if o.Parallel == 0 && o.Rate == 0 && controlPlane {
		o.Parallel = 2
	}
	o.Pools = n.poolNames()
	k, err := kubelet.ReadConfig(kubelet.ConfigFiles...)
	if o.Limits.GCPercent == 0 {
		o.Limits.GCPercent = k.GCPercent
		if k.GCSet {
			o.Limits.GCFile = k.File
		}
	}

	slots, _, others := n.slots() // the pass reports crioErr
	slots = append(slots, others...)
	hidden, hiddenErr := n.hidden()
	conf.Disk = stores.Disk{
		Slots: slots, Hidden: hidden, Sets: n.conf.SetsDir, Staging: cmp.Or(n.conf.StagingDir, n.crio.Staging()),
		RunRoots: n.crio.RunRoots(),
	}
	conf.Aside = n.aside(hidden...)
	conf.Manifests = registry.Client{
		AuthFile: n.crio.AuthFile, Insecure: n.insecure(ctx, m.client, n.crio.Config),
		Cache: filepath.Join(n.conf.StateDir, "manifests"), ReadOnly: m.readOnly,
		RegistriesConf: n.conf.RegistriesConf, RegistriesDir: n.conf.RegistriesDir,
	}
	conf.Volumes = ownStore{node: n, direct: m.direct}
	conf.CopyVolumes = n.conf.ImageVolumes == layout.ImageVolumesCopy
	conf.Cluster = n.clusterStatus()
	env, _ := input.Config(filepath.Join(filepath.Dir(n.s.Config), filepath.Base(layout.NodeEnvPath))) // systemd reads it
	if warning := layout.OldFlags(env); warning != "" {
		conf.Warnings = []string{warning}
	}
	conf.Wanted = m.readWanted(ctx)
	admission, namesErr := n.readAdmission(k)
	return conf, errors.Join(err, namesErr, checkTwice(n.crio.Stores()), hiddenErr, checkPolicy(n.crio.Policy(), slots),
		admission.check(ctx, m.client))
}

// Sets implements runtime.Node.
func (m *machine) Sets() ([]pinset.Set, error) { return m.node.readSets() }

// Publish implements runtime.Node: it writes the status and the metrics, and hands them to who else wants them.
func (m *machine) Publish(s runtime.Status) error {
	if m.metrics != nil {
		m.metrics.status.Store(&s)
	}
	if m.report != nil {
		m.report(s)
	}
	m.saveWanted(s)
	return m.node.publish(s)
}

// Reconcile implements runtime.Stores.
func (m *machine) Reconcile(ctx context.Context) (state runtime.StoresState, err error) {
	attached, err := m.node.reconcileStores(ctx, m.readOnly)
	own, ownErr := m.node.ownStore(ctx)
	program, programErr := m.programs()
	state = runtime.StoresState{Releases: m.node.releases(), Stores: attached, Own: own}
	if program != (runtime.ProgramStatus{}) {
		state.Program = &program
	}
	return state, errors.Join(err, ownErr, programErr)
}

// Take implements runtime.Stores. The sets of the store do not count: the one that names it does.
func (m *machine) Take(ctx context.Context, name string) error {
	if !fetch.Is(name) {
		return fmt.Errorf("%q: %w", name, fetch.ErrName)
	}
	_, err := m.node.Attach(ctx, stores.AttachOptions{Source: name, KeepSets: true})
	return err
}

// programs returns which pinbox-node runs, and which one follows.
func (m *machine) programs() (s runtime.ProgramStatus, err error) {
	manager, err := m.node.manager()
	if err != nil {
		return s, err
	}
	s.Own = manager.OwnProgram
	s.Current, err = manager.CurrentProgram()
	if err != nil || m.readOnly { // what asks is not pinbox-node.service
		return s, err
	}
	if m.self == (pinset.Program{}) { // 23 MB, once for all passes
		m.self, err = readSelf()
	}
	s.Running = m.self
	return s, err
}

// readSelf reads the program of this process, also if its file was replaced: proc(5).
func readSelf() (pinset.Program, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return pinset.Program{}, err
	}
	defer f.Close()
	return pinset.ReadProgram(f)
}

// insecure are the registries that the CRI-O which runs uses without TLS by itself.
func (n *Node) insecure(ctx context.Context, client *cri.Client, config crio.Config) []string {
	version, answers := n.version(ctx, client)
	if !answers {
		return nil // the pass reports it
	}
	return config.InsecureRegistries(version)
}

func (n *Node) reloader() func(context.Context) error {
	switch {
	case n.conf.Reload == "systemd" || n.conf.Reload == "auto" && systemd.Running():
		return func(ctx context.Context) error { return systemd.Reload(ctx, crio.Unit) }
	case n.conf.Reload == "signal" || n.conf.Reload == "auto":
		return func(ctx context.Context) error { return crio.ReloadBySignal(ctx, n.conf.Socket) }
	}
	return func(ctx context.Context) error { return crio.ReloadByCommand(ctx, n.conf.Reload) }
}

func (n *Node) logReader() func(context.Context, time.Time) ([]byte, error) {
	if n.conf.CRIOLog != "" {
		return crio.LogFile(n.conf.CRIOLog)
	}
	return crio.Journal
}
