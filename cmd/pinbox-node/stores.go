package main

import (
	"time"

	"github.com/spf13/cobra"
)

func storesCommand() *cobra.Command {
	var f nodeFlags
	var output string
	cmd := &cobra.Command{
		Use:   "stores",
		Short: "Show the stores that were attached",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			all, err := f.settle(cmd.Context())
			if err != nil {
				return err
			}
			return showStores(cmd.OutOrStdout(), output, all)
		},
	}
	f.asBefore = true
	f.add(cmd.Flags(), 10*time.Second)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json for programs")
	return cmd
}
