package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func planCommand() *cobra.Command {
	var f passFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what a pass would do and the space that it needs; change nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			plan, err := r.Plan(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, describe(plan), plan.Problem)
		},
	}
	f.asBefore = true
	f.planFlags.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	return cmd
}
