package main

import (
	"time"

	"github.com/spf13/cobra"
)

func planCommand() *cobra.Command {
	var f nodeFlags
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
			return show(cmd.OutOrStdout(), f.output, describe(plan), plan.Problem)
		},
	}
	f.add(cmd.Flags(), 10*time.Second)
	return cmd
}
