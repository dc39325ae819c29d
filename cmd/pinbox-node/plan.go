package main

import (
	"time"

	"github.com/spf13/cobra"
)

func planCommand() *cobra.Command {
	var f passFlags
	var output string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what a pass would do and the space that it needs; change nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
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
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json for programs")
	return cmd
}
