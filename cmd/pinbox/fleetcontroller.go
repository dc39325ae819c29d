package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/controller"
)

func fleetControllerCommand() *cobra.Command {
	var f clusterFlags
	var o controller.Options
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Advance the rollouts of a cluster",
		Long: `controller releases the sets of rollouts to the nodes, wave by wave, until it is stopped. If
several controllers run, one leads; if it ends, another one takes over. A controller stores
nothing, so it may run anywhere. While none runs, no rollout advances, and nodes stay as they are.

  pinbox fleet controller --kubeconfig in-cluster      # in a pod: deploy/controller.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Interval < time.Millisecond || o.Lease < time.Second {
				return cli.Usagef("--interval and --lease: %s, %s: at least 1ms and 1s", o.Interval, o.Lease)
			}
			host, err := os.Hostname()
			if err != nil {
				return err
			}
			o.Identity = fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
			o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if o.API, err = f.connect(); err != nil {
				return err
			}
			return controller.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	f.add(flags)
	cli.Under("Inputs", flags)
	flags.StringVar(&o.Namespace, "namespace", "pinbox", "`NAME` of the namespace of the Lease "+controller.LeaseName)
	flags.DurationVar(&o.Lease, "lease", 15*time.Second,
		"`TIME` after which another controller follows one that is silent")
	flags.DurationVar(&o.Interval, "interval", askInterval, "`TIME` between two looks at the nodes")
	flags.DurationVar(&o.Stale, "stale", 2*time.Hour, "`TIME` after which a node that has not reported fails")
	cli.Under("Control", flags)
	return cmd
}
