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
		Short: "Make the previous release current again, without a registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			release, err := f.open().Rollback(cmd.Context())
			if err != nil {
				return err
			}
			status, err := f.open().ApplySets(cmd.Context())
			return showRelease(cmd, output, release, status, err)
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
