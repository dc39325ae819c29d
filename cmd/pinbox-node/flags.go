package main

import (
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/storage/layout"
)

// nodeFlags are the flags of all commands except install-store.
type nodeFlags struct{ settings node.Settings }

// open opens the node that the flags describe.
func (f *nodeFlags) open() *node.Node { return node.Open(f.settings) }

func (f *nodeFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	s := &f.settings
	pass := &f.settings.Pass
	flags.StringVar(&s.Sets, "sets", layout.SetsDir, "`DIR` of PinnedImageSets")
	flags.StringVar(&s.Config, "config", layout.NodeConfigPath, "`FILE` of the node's settings")
	cli.Files(flags, "config", "json")
	flags.StringVar(&s.Keys, "keys", layout.KeysDir, "`DIR` of the public keys that the node trusts")
	flags.StringSliceVar(&pass.Pools, "pool", nil,
		"`POOL` of this node, or several with commas (default: all sets apply)")
	cli.Words(flags, "pool", "master", "control-plane", "worker", "infra")
	flags.StringVar((*string)(&pass.Owner), "owner", "auto",
		"`WHO` writes the pins: pinbox, mco (pinbox only reports), or auto")
	cli.Words(flags, "owner", "auto", string(runtime.Pinbox), string(runtime.MCO))
	flags.StringVar(&pass.Node, "node-name", "", "`NAME` of this node in messages (default: the host's)")
	flags.StringVar(&s.Socket, "socket", cri.DefaultSocket, "`PATH` of CRI-O's socket")
	flags.StringVar(&s.CRIODir, "crio-config", node.DefaultCRIODir, "`DIR` of CRI-O's configuration")
	flags.StringVar(&s.Status, "status", layout.StatusPath, "`FILE` of the status")
	cli.Files(flags, "status", "json")
	flags.StringVar(&s.State, "state", layout.NodeDir,
		"`DIR` of the attached stores and other state")
	flags.DurationVar(&pass.Wait, "wait", wait, "`TIME` to wait for CRI-O, or for another pinbox-node")
	cli.Under("Node", flags)
}

// planFlags are the flags for the space that pulls need, and for pulls.
type planFlags struct{ nodeFlags }

func (f *planFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	s := &f.settings
	pass := &f.settings.Pass
	f.nodeFlags.add(flags, wait)
	f.addReserve(flags)
	flags.IntVar(&pass.Limits.GCPercent, "gc-threshold", 0,
		"`PERCENT` of the disk at which the kubelet removes images; 100 means never (default: from the "+
			"kubelet's configuration)")
	flags.StringVar(&s.Staging, "staging", "",
		"`DIR` where CRI-O keeps blobs until they are unpacked (default: from CRI-O's configuration)")
	cli.Under("Space", flags)
	flags.IntVar(&pass.Parallel, "parallel", 0,
		"`NUMBER` of pulls at a time (default: 4, or 2 in the pool master or control-plane, or 1 with --rate)")
	flags.StringVar(&s.RegistriesConf, "registries-conf", "", "`FILE` to read instead of /etc/containers/registries.conf")
	cli.Files(flags, "registries-conf", "conf")
	flags.StringVar(&s.RegistriesDir, "registries-conf-dir", "",
		"`DIR` to read instead of /etc/containers/registries.conf.d")
	cli.Under("Pulls", flags)
}

// addReserve adds --reserve, which compact takes as well.
func (f *nodeFlags) addReserve(flags *pflag.FlagSet) {
	flags.TextVar(&f.settings.Pass.Limits.Reserve, "reserve", runtime.DefaultReserve,
		"`SPACE` to leave free: a number of bytes such as 16Gi, a share such as 10%, or the lesser of both")
	cli.Words(flags, "reserve", runtime.DefaultReserve.String(), "16Gi", "10%", "0")
	cli.Under("Space", flags)
}

// passFlags are the flags of commands that make passes. They include those of the service: all units read their flags
// from one file, node.env.
type passFlags struct {
	planFlags
	interval time.Duration
}

// add adds the flags, and does not list those of the service.
func (f *passFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.addService(flags, wait)
	for _, name := range []string{"interval", "metrics", "kubeconfig", "jitter", "node-condition"} {
		flags.Lookup(name).Hidden = true
	}
}

// addService adds the flags, for run.
func (f *passFlags) addService(flags *pflag.FlagSet, wait time.Duration) {
	s := &f.settings
	pass := &f.settings.Pass
	f.planFlags.add(flags, wait)
	flags.DurationVar(&pass.Stall, "stall", 5*time.Minute,
		"`TIME` without progress after which a pull is started again, and the fetch of a store ends")
	flags.TextVar(&pass.Rate, "rate", runtime.Rate(0),
		"`RATE` of the pulls of a pass on average, as 20MB/s: the next image waits; "+
			"CRI-O pulls one as fast as it can (default: no limit)")
	flags.TextVar(&pass.LeastRate, "least-rate", runtime.DefaultLeastRate,
		"`RATE` below which a server counts as stalled, of which a store is fetched; 0 for none")
	flags.DurationVar(&pass.Retry.First, "retry", time.Second, "`TIME` to wait before the second attempt of a pull")
	cli.Under("Pulls", flags)
	flags.BoolVar(&pass.Prune, "prune", false, "remove images that are in no set any more and that no container uses")
	flags.StringVar(&s.Reload, "reload", "auto",
		"`WAY` to reload CRI-O: systemd, signal, auto, or a command (no shell)")
	cli.Words(flags, "reload", "auto", "systemd", "signal")
	flags.StringVar(&s.CRIOLog, "crio-log", "", "`FILE` of CRI-O's log (default: the journal)")
	flags.DurationVar(&f.interval, "interval", 5*time.Minute,
		"`TIME` between passes of the service when nothing changes")
	flags.StringVar(&s.Metrics, "metrics", "", "`ADDR` of loopback, such as 127.0.0.1:9750, where the service serves its "+
		"metrics for Prometheus (default: none)")
	flags.StringVar(&s.MetricsFile, "metrics-file", "",
		"`FILE` of the metrics for node_exporter (default: metrics.prom in the folder of the status)")
	cli.Files(flags, "metrics-file", "prom")
	cli.Under("Pass", flags)
	flags.StringVar(&s.Kubeconfig, "kubeconfig", "",
		"`FILE` with the API of a cluster, whose PinnedImageSets the service follows, too; or in-cluster, in a pod")
	cli.Words(flags, "kubeconfig", cluster.InCluster)
	flags.DurationVar(&s.Jitter, "jitter", 10*time.Second,
		"`TIME` within which the service starts a pass after a change in the cluster, at random; "+
			"0 also makes it report at once")
	flags.BoolVar(&s.Condition, "node-condition", false,
		"write the condition PinnedImagesReady of the Node in the cluster; in a pod, deploy/node-condition.yaml permits it")
	cli.Under("Cluster", flags)
}

// named requires one argument; its error says which.
func named(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.Usagef("name %s; got %d arguments", what, len(args))
		}
		return nil
	}
}

// parseDigest parses the value of --digest. "" is valid and means that the flag is not set.
func parseDigest(s string) (digest.Digest, error) {
	d := digest.Digest(s)
	if s != "" && (d.Validate() != nil || d.Algorithm() != digest.SHA256) {
		return "", cli.Usagef("--digest %s: want sha256: and 64 hexadecimal digits", s)
	}
	return d, nil
}
