package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/aside"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/runtime/registry"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
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
)

// NewReconciler returns a reconciler that continues from the status of the last pass. The caller
// calls end.
func NewReconciler(o Options) (r *runtime.Reconciler, end func(), err error) {
	o = o.complete()
	previous, noPrevious := statusFile(o.Status).load()
	if noPrevious == nil && o.readOnly && len(o.Pools) == 0 {
		o.Pools = previous.Pools
	}
	if _, err = o.owner(); err != nil {
		return nil, nil, err
	}
	client, err := cri.Dial(o.Socket)
	if err != nil {
		return nil, nil, err
	}
	self := sync.OnceValues(readSelf) // 23 MB, once for all passes
	r = &runtime.Reconciler{
		Runtime: client, Images: client, Sets: o.readSets, Publish: o.publish, Stores: o.reconcileStores,
		TakeStore: func(ctx context.Context, name string) error { return takeStore(ctx, o, name) },
		OwnStore:  o.ownStore, Volumes: ownStore{o: o},
		Pins:    &crio.Pins{Dir: o.CRIODir, Reload: reloader(o), Log: logReader(o)},
		Program: func() (runtime.ProgramStatus, error) { return readPrograms(o, self) },
		Cluster: func() *runtime.ClusterStatus { return clusterStatus(o) },
		Options: o.Options, Hooks: o.Hooks,
		Configure: func(ctx context.Context, r *runtime.Reconciler) error { return o.configure(ctx, r, client) },
	}
	controlPlane := slices.Contains(o.Pools, "master") || slices.Contains(o.Pools, "control-plane")
	if r.Parallel == 0 && r.Rate == 0 && controlPlane {
		r.Parallel = 2
	}
	if noPrevious == nil {
		r.Continue(previous)
	}
	return r, func() { client.Close() }, nil
}

// configure reads what other programs may change on the node at any time.
func (o Options) configure(ctx context.Context, r *runtime.Reconciler, client *cri.Client) (err error) {
	config, _ := crio.ReadConfig(os.DirFS(o.CRIODir)) // the pass reports the error
	images, _ := o.imageStores()                      // and also this one
	slots, _, others, _ := o.slots()                  // and also the error of slots
	slots = append(slots, others...)
	hidden, runningErr := o.checkRunning(ctx, config, images, slots)
	r.Disk = stores.Disk{
		Slots: slots, Hidden: hidden, Sets: o.Sets, Staging: o.stagingDir(config), RunRoots: o.runRoots(),
	}
	r.Aside = o.aside(hidden...)
	r.CopyVolumes = ownStore{o: o}.copies()
	r.Manifests = registry.Client{
		AuthFile: config.AuthFile, Insecure: o.insecure(ctx, client, config),
		Cache: filepath.Join(o.State, "manifests"), ReadOnly: o.readOnly,
		RegistriesConf: o.RegistriesConf, RegistriesDir: o.RegistriesDir,
	}
	if r.Owner, err = o.owner(); err != nil {
		return err
	}
	r.Pools = poolNames(o)
	k, err := kubelet.ReadConfig(kubelet.ConfigFiles...)
	if o.Limits.GCPercent == 0 {
		r.Limits.GCPercent, r.Limits.GCFile = k.GCPercent, ""
		if k.GCSet {
			r.Limits.GCFile = k.File
		}
	}
	admission, namesErr := readAdmission(o, k)
	return errors.Join(err, namesErr, checkTwice(images), runningErr, admission.check(ctx, client))
}

// insecure are the registries that CRI-O uses without TLS by its own configuration.
func (o Options) insecure(ctx context.Context, client *cri.Client, config crio.Config) []string {
	if len(config.Insecure) == 0 || !listens(o.Socket) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if _, version, err := client.Version(ctx); err != nil || !crio.ReadsInsecureRegistries(version) {
		return nil
	}
	return config.Insecure
}

func (o Options) stagingDir(config crio.Config) string {
	switch {
	case o.Staging != "":
		return o.Staging
	case config.BigFiles != "":
		return config.BigFiles
	}
	return "/var/tmp"
}

func reloader(o Options) func(context.Context) error {
	switch {
	case o.Reload == "systemd" || o.Reload == "auto" && systemd.Running():
		return func(ctx context.Context) error { return systemd.Reload(ctx, "crio.service") }
	case o.Reload == "signal" || o.Reload == "auto":
		return func(ctx context.Context) error { return crio.ReloadBySignal(ctx, o.Socket) }
	}
	return func(ctx context.Context) error { return crio.ReloadByCommand(ctx, o.Reload) }
}

func logReader(o Options) func(context.Context, time.Time) ([]byte, error) {
	if o.CRIOLog != "" {
		return crio.LogFile(o.CRIOLog)
	}
	return crio.Journal
}
