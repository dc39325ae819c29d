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
		Use:     "plan",
		Short:   "Show what a pass would do and the space that it needs; change nothing",
		Example: "  pinbox-node plan",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := f.open().Plan(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, describe(plan), plan.Problem)
		},
	}
	f.planFlags.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cli.Common(cmd, "sets", "config", "pool", "owner", "reserve", "output")
}
