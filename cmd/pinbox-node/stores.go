package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func storesCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "stores",
		Short: "Show the stores that were attached",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := f.settle(cmd.Context())
			if err != nil {
				return err
			}
			return showStores(cmd.OutOrStdout(), output, all)
		},
	}
	f.asBefore = true
	f.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	return cmd
}
