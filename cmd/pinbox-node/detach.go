package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/stores"
)

func detachCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "detach [SLOT | NAME | DIGEST]",
		Short: "Remove a store that nothing uses; without a name, all such stores",
		Long: `Remove a store if no set, no container, no layer of CRI-O's own store and no other store
uses it. Otherwise list what uses it.

Without a name, remove all stores that are not used, except the stores that rollback needs.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: f.attachedStores,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				removed, inUse, err := f.open().DetachUnused(cmd.Context())
				return showDetached(cmd, output, f.settings.DryRun, removed, inUse, err)
			}
			removed, err := f.open().Detach(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showDetached(cmd, output, f.settings.DryRun, []stores.Store{removed}, nil, nil)
		},
	}
	cmd.Flags().BoolVar(&f.settings.DryRun, "dry-run", false, "show what would be removed, and change nothing")
	cli.Under("Store", cmd.Flags())
	f.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
