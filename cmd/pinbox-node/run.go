package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/runtime/watch"
)

func runCommand() *cobra.Command {
	var f passFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Stay, and make a pass whenever the sets change, and against drift",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			log := cli.Output("").Log(cmd.ErrOrStderr())
			r, end, err := f.alone(ctx, log)
			if err != nil {
				return err
			}
			defer end()
			agent := runtime.Agent{
				Reconciler: r, Service: systemd.Service{}, Log: log,
				Changes: watch.Changes(ctx, f.sets, 5*time.Second), Interval: f.interval,
			}
			agent.Run(ctx)
			return nil
		},
	}
	f.add(cmd.Flags(), 5*time.Second)
	return cmd
}
