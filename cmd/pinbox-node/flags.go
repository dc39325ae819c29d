package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
)

// nodeFlags say how things are on the node; every command shares them.
type nodeFlags struct {
	socket, sets, status, state, crio string
	pools                             []string
	node, owner                       string
	wait                              time.Duration
	// asBefore is for commands that only look: they take the pools of the last
	// pass, if no others are given, and write nothing.
	asBefore bool
}

func (f *nodeFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	flags.DurationVar(&f.wait, "wait", wait, "how long to wait for CRI-O, or for another pinbox-node")
	flags.StringVar(&f.socket, "socket", cri.DefaultSocket, "CRI-O's socket")
	flags.StringVar(&f.sets, "sets", "/etc/pinbox/sets.d", "folder of PinnedImageSets")
	flags.StringVar(&f.crio, "crio-config", "/etc/crio", "folder of CRI-O's configuration")
	flags.StringVar(&f.status, "status", "/run/pinbox/status.json", "where the status is kept")
	flags.StringVar(&f.state, "state", "/var/lib/pinbox", "folder of the read-only stores, and of what is kept between passes")
	flags.StringSliceVar(&f.pools, "pool", nil, "pools of this node (default: every set counts)")
	flags.StringVar(&f.node, "node-name", "", "name of this node in messages (default: the host's)")
	flags.StringVar(&f.owner, "owner", "auto", "who writes the pins: pinbox, mco (pinbox only reports), or auto")
}

// planFlags say what pulls may take.
type planFlags struct {
	nodeFlags
	reserve, staging              string
	gcPercent                     int
	parallel                      int
	registriesConf, registriesDir string
}

func (f *planFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.nodeFlags.add(flags, wait)
	flags.StringVar(&f.reserve, "reserve", runtime.DefaultReserve.String(), "space to leave free: bytes, a share, or the lesser of both")
	flags.IntVar(&f.gcPercent, "gc-threshold", 0, "share of the disk in percent at which the kubelet removes images; 100 means never (default: as the kubelet is configured)")
	flags.StringVar(&f.staging, "staging", "", "folder where CRI-O keeps blobs until they are unpacked (default: as CRI-O is configured)")
	flags.IntVar(&f.parallel, "parallel", 0, "pulls at a time (default: 4, or 2 in the pool master or control-plane)")
	flags.StringVar(&f.registriesConf, "registries-conf", "", "stands for /etc/containers/registries.conf")
	flags.StringVar(&f.registriesDir, "registries-conf-dir", "", "stands for /etc/containers/registries.conf.d")
}

// passFlags say how a pass goes about it, and when the service makes the next: its
// flags stand in one file with those of the other units.
type passFlags struct {
	planFlags
	prune                  bool
	reload, log            string
	stall, retry, interval time.Duration
}

func (f *passFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.planFlags.add(flags, wait)
	flags.BoolVar(&f.prune, "prune", false, "remove images that no set asks for any more and no container uses")
	flags.StringVar(&f.reload, "reload", "auto", "how CRI-O is told to reload: systemd, signal, or a command (no shell)")
	flags.StringVar(&f.log, "crio-log", "", "file of CRI-O's log (default: the journal)")
	flags.DurationVar(&f.stall, "stall", 5*time.Minute, "how long nothing may arrive before a pull starts anew")
	flags.DurationVar(&f.retry, "retry", time.Second, "how long to wait before the second attempt of a pull")
	flags.DurationVar(&f.interval, "interval", 5*time.Minute, "for the service: time between passes when nothing changes")
}

func (f nodeFlags) ownerOf() (runtime.Owner, error) {
	switch f.owner {
	case "auto":
		// It is there on a node that the Machine Config Operator manages.
		current := filepath.Join(filepath.Dir(filepath.Clean(f.crio)), "machine-config-daemon", "currentconfig")
		if _, err := os.Stat(current); err == nil {
			return runtime.MCO, nil
		}
		return runtime.Pinbox, nil
	case string(runtime.Pinbox), string(runtime.MCO):
		return runtime.Owner(f.owner), nil
	}
	return "", cli.Usagef("--owner %s: it is pinbox, mco or auto", f.owner)
}

func (f nodeFlags) name() string {
	if f.node != "" {
		return f.node
	}
	name, err := os.Hostname()
	if err != nil {
		return "this node"
	}
	return name
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
