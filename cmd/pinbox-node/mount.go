package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func mountCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "mount",
		Short: "Mount the attached stores that are whole and have their base: before CRI-O starts",
		Long: `Mount the attached stores that are whole and have their base: before CRI-O starts.

A flag that it does not know it passes over: node.env has those of all services, and
CRI-O is not to come up without its stores for a misspelt one.`,
		Args:               cobra.NoArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			keeper, wrong := f.keeper()
			keeper.Unconfigured = wrong != nil // which somebody has to mend, but not before CRI-O starts
			all, err := keeper.Reconcile(cmd.Context(), func() bool { return f.stopped(cmd.Context()) })
			if err != nil {
				return errors.Join(wrong, err)
			}
			return errors.Join(wrong, showStores(cmd.OutOrStdout(), output, storeStatuses(all)))
		},
	}
	// CRI-O waits. Whoever is at the stores, for minutes perhaps, has mounted them first.
	f.add(cmd.Flags(), 5*time.Second)
	output.Add(cmd.Flags())
	return cmd
}
