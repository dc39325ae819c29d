package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/runtime/stores"
)

func storesCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "stores",
		Short: "Show the attached stores and their state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := node.Stores(cmd.Context(), f.Options)
			if err != nil && !errors.Is(err, stores.ErrRestored) {
				return err
			}
			return errors.Join(err, showStores(cmd.OutOrStdout(), output, all))
		},
	}
	f.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
