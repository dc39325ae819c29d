package main

import (
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/storage/layout"
)

// nodeFlags say how things are on the node; every command shares them.
type nodeFlags struct{ node.Options }

func (f *nodeFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	flags.DurationVar(&f.Wait, "wait", wait, "how long to wait for CRI-O, or for another pinbox-node")
	flags.StringVar(&f.Socket, "socket", cri.DefaultSocket, "CRI-O's socket")
	flags.StringVar(&f.Sets, "sets", layout.SetsDir, "folder of PinnedImageSets")
	flags.StringVar(&f.CRIO, "crio-config", node.DefaultCRIO, "folder of CRI-O's configuration")
	flags.StringVar(&f.Status, "status", layout.StatusPath, "where the status is kept")
	flags.StringVar(&f.State, "state", layout.NodeDir, "folder of the read-only stores, and of what is kept between passes")
	flags.StringSliceVar(&f.Pools, "pool", nil, "pools of this node (default: every set counts)")
	flags.StringVar(&f.Node, "node-name", "", "name of this node in messages (default: the host's)")
	flags.StringVar((*string)(&f.Owner), "owner", "auto", "who writes the pins: pinbox, mco (pinbox only reports), or auto")
}

// planFlags say what pulls may take.
type planFlags struct{ nodeFlags }

func (f *planFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.nodeFlags.add(flags, wait)
	flags.TextVar(&f.Limits.Reserve, "reserve", runtime.DefaultReserve, "space to leave free: bytes, a share, or the lesser of both")
	flags.IntVar(&f.Limits.GCPercent, "gc-threshold", 0, "share of the disk in percent at which the kubelet removes images; 100 means never (default: as the kubelet is configured)")
	flags.StringVar(&f.Staging, "staging", "", "folder where CRI-O keeps blobs until they are unpacked (default: as CRI-O is configured)")
	flags.IntVar(&f.Parallel, "parallel", 0, "pulls at a time (default: 4, or 2 in the pool master or control-plane)")
	flags.StringVar(&f.RegistriesConf, "registries-conf", "", "stands for /etc/containers/registries.conf")
	flags.StringVar(&f.RegistriesDir, "registries-conf-dir", "", "stands for /etc/containers/registries.conf.d")
}

// passFlags say how a pass goes about it, and when the service makes the next: its
// flags stand in one file with those of the other units.
type passFlags struct {
	planFlags
	interval time.Duration
}

func (f *passFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.planFlags.add(flags, wait)
	flags.BoolVar(&f.Prune, "prune", false, "remove images that no set asks for any more and no container uses")
	flags.StringVar(&f.Reload, "reload", "auto", "how CRI-O is told to reload: systemd, signal, or a command (no shell)")
	flags.StringVar(&f.CRIOLog, "crio-log", "", "file of CRI-O's log (default: the journal)")
	flags.DurationVar(&f.Stall, "stall", 5*time.Minute, "how long nothing may arrive before a pull starts anew")
	flags.DurationVar(&f.Retry.First, "retry", time.Second, "how long to wait before the second attempt of a pull")
	flags.DurationVar(&f.interval, "interval", 5*time.Minute, "for the service: time between passes when nothing changes")
}

// named wants one argument, and says which.
func named(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.Usagef("name %s; got %d arguments", what, len(args))
		}
		return nil
	}
}

// parseDigest reads the digest of a file; "" is none.
func parseDigest(s string) (digest.Digest, error) {
	d := digest.Digest(s)
	if s != "" && (d.Validate() != nil || d.Algorithm() != digest.SHA256) {
		return "", cli.Usagef("--digest %s: it is sha256: and 64 digits", s)
	}
	return d, nil
}
