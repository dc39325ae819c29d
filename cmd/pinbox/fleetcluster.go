package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/rollout"
)

// clusterFlags name a cluster.
type clusterFlags struct{ kubeconfig, context string }

// add adds the flags.
func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` with the API of the cluster (default: as for kubectl)")
	cli.Files(flags, "kubeconfig")
	flags.StringVar(&f.context, "context", "", "`NAME` of the context in that file (default: the current one)")
}

func (f *clusterFlags) connect() (cluster.API, error) {
	return cluster.Connect(f.kubeconfig, f.context)
}

// defaultRollout is the name of the rollout of a fleet with one.
const defaultRollout = "fleet"

// rolloutName is the name of a rollout on the command line.
func rolloutName(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultRollout
}

// waveFlags describe a rollout.
type waveFlags struct {
	waves      []string
	success    string
	window     string
	deadline   time.Duration
	maxPulling int
}

// add adds the flags.
func (f *waveFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.waves, "wave", []string{rollout.Rest},
		"`WAVE`, as canary=1, 10% or rest (several: repeat the flag)")
	flags.StringVar(&f.success, "success", "100%",
		"`PERCENTAGE` of the nodes that must be ready before the next wave; if so many fail that this cannot be, "+
			"the rollout pauses")
	flags.IntVar(&f.maxPulling, "max-pulling", 0, "`NUMBER` of nodes that may pull at once (default: no limit)")
	flags.StringVar(&f.window, "window", "",
		"`TIME` of the day in UTC in which nodes are released, as 22:00-05:00 (default: all day)")
	flags.DurationVar(&f.deadline, "deadline", 0, "`TIME` after its release in which a node must be ready, or else it "+
		"fails (default: any, if it has begun in the --stale of the controller)")
}

// spec reads the flags.
func (f *waveFlags) spec() (s rollout.Spec, err error) {
	number, found := strings.CutSuffix(f.success, "%")
	if s.Success, err = strconv.Atoi(number); err != nil || !found || s.Success < 1 {
		return s, cli.Usagef("--success %q: it is a percentage, as 95%%", f.success)
	}
	s.MaxPulling, s.Window = f.maxPulling, f.window
	if f.deadline != 0 {
		s.Deadline = f.deadline.String()
	}
	for _, text := range f.waves {
		wave, err := rollout.ParseWave(text)
		if err != nil {
			return s, cli.Usagef("--wave: %w", err)
		}
		s.Waves = append(s.Waves, wave)
	}
	if err := s.Check(); err != nil {
		return s, cli.Usagef("%w", err)
	}
	return s, nil
}

// reportSets says which sets were changed, also before an error.
func reportSets(cmd *cobra.Command, names []string, err error) error {
	for _, name := range names {
		fmt.Fprintf(cmd.OutOrStdout(), "set %s: changed\n", name)
	}
	if err == nil && len(names) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no set has changed")
	}
	return err
}
