package main

import (
	"time"

	"github.com/spf13/cobra"
)

func rollbackCommand() *cobra.Command {
	var f passFlags
	var output string
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Make the release before the current one current again, without a registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			keeper, err := f.keeper()
			if err != nil {
				return err
			}
			release, err := keeper.Rollback(cmd.Context())
			if err != nil {
				return err
			}
			status, err := f.follow(cmd.Context())
			return showRelease(cmd, output, release, status, err)
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json for programs")
	return cmd
}
