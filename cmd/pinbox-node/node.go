package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/runtime/registry"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/runtime/watch"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What runtime asks for is what its rooms have.
var (
	_ runtime.Runtime   = (*cri.Client)(nil)
	_ runtime.Images    = (*cri.Client)(nil)
	_ runtime.Pins      = (*crio.Pins)(nil)
	_ runtime.Manifests = registry.Client{}
	_ runtime.Disk      = stores.Disk{}
	_ runtime.Service   = systemd.Service{}
)

// alone gives a reconciler to the one process that makes passes, and what it does
// at its end.
func (f passFlags) alone(ctx context.Context, log *slog.Logger) (r *runtime.Reconciler, end func(), err error) {
	release, err := f.lock(ctx, func(text string) { log.Info(text) })
	if err != nil {
		return nil, nil, err
	}
	r, client, err := f.reconciler()
	if err != nil {
		release()
		return nil, nil, err
	}
	r.Hooks = logged(log)
	return r, func() { client.Close(); release() }, nil
}

// reconciler puts the parts together. The caller closes the client.
func (f passFlags) reconciler() (*runtime.Reconciler, *cri.Client, error) {
	previous, err := f.load()
	if err == nil && f.asBefore && len(f.pools) == 0 {
		f.pools = previous.Pools
	}
	return f.compose(previous, err)
}

// compose goes on from the status before, if there is one.
func (f passFlags) compose(previous runtime.Status, noPrevious error) (*runtime.Reconciler, *cri.Client, error) {
	if _, err := f.ownerOf(); err != nil {
		return nil, nil, err
	}
	reserve, err := runtime.ParseReserve(f.reserve)
	if err != nil {
		return nil, nil, cli.Usagef("--reserve: %w", err)
	}
	client, err := cri.Dial(f.socket)
	if err != nil {
		return nil, nil, err
	}
	r := &runtime.Reconciler{
		Runtime: client, Images: client, Sets: f.readSets, Publish: f.save, Stores: f.settle,
		Pins: &crio.Pins{Etc: f.crio, Reload: f.reloader(), Log: f.logReader()},
		Options: runtime.Options{
			Node: f.name(), Pools: f.pools, Parallel: f.parallel, Prune: f.prune, Stall: f.stall, Wait: f.wait,
			Retry: runtime.Retry{First: f.retry}, Limits: runtime.Limits{Reserve: reserve, GCPercent: f.gcPercent},
		},
		Configure: f.configure,
	}
	if r.Parallel == 0 && (slices.Contains(f.pools, "master") || slices.Contains(f.pools, "control-plane")) {
		r.Parallel = 2
	}
	if noPrevious == nil {
		r.Continue(previous)
	}
	return r, client, nil
}

// configure reads what others may change on the node at any time.
func (f passFlags) configure(r *runtime.Reconciler) (err error) {
	config, _ := crio.ReadConfig(os.DirFS(f.crio)) // what is wrong with it, the pass says
	slots, _, others, _ := f.slots()               // what is wrong with it, the pass says
	r.Disk = stores.Disk{Slots: append(slots, others...), Sets: f.sets, Staging: f.stagingDir(config)}
	r.Manifests = registry.Client{
		AuthFile: config.AuthFile, Insecure: config.Insecure, Cache: filepath.Join(f.state, "manifests"), ReadOnly: f.asBefore,
		RegistriesConf: f.registriesConf, RegistriesDir: f.registriesDir,
	}
	if r.Owner, err = f.ownerOf(); err != nil {
		return err
	}
	if f.gcPercent == 0 {
		r.Limits.GCPercent, r.Limits.GCFile, err = kubelet.GCThreshold(kubelet.Files...)
	}
	return err
}

func (f planFlags) stagingDir(config crio.Config) string {
	switch {
	case f.staging != "":
		return f.staging
	case config.BigFiles != "":
		return config.BigFiles
	}
	return "/var/tmp"
}

func (f passFlags) reloader() func(context.Context) error {
	switch {
	case f.reload == "systemd" || f.reload == "auto" && systemd.Running():
		return func(ctx context.Context) error { return systemd.Reload(ctx, "crio.service") }
	case f.reload == "signal" || f.reload == "auto":
		return func(ctx context.Context) error { return crio.Signal(ctx, f.socket) }
	}
	return func(ctx context.Context) error { return crio.Command(ctx, f.reload) }
}

func (f passFlags) logReader() func(context.Context, time.Time) ([]byte, error) {
	if f.log != "" {
		return crio.LogFile(f.log)
	}
	return crio.Journal
}

func (f nodeFlags) readSets() ([]pinset.Set, error) {
	sets, err := watch.Dir(os.DirFS(f.sets))
	if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Path == "." {
		err = fmt.Errorf("folder of sets %s: %w", f.sets, path.Err)
	}
	return watch.ForPools(sets, f.pools), err
}

func (f nodeFlags) save(s runtime.Status) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.status), 0o755); err != nil {
		return err
	}
	_, err = atomicfile.WriteVia(f.status+".new", f.status, append(content, '\n'), 0o644)
	return err
}

func (f nodeFlags) load() (s runtime.Status, err error) {
	file, err := os.Open(f.status)
	if err != nil {
		return s, err
	}
	defer file.Close()
	return runtime.DecodeStatus(file)
}
