package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func rollbackCommand() *cobra.Command {
	var f passFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Make the release before the current one current again, without a registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	output.Add(cmd.Flags())
	return cmd
}
