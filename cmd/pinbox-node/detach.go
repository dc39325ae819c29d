package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func detachCommand() *cobra.Command {
	var f nodeFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "detach [SLOT | NAME | DIGEST]",
		Short: "Remove a store that nothing uses; without a name, all such stores",
		Example: `  pinbox-node detach --dry-run
  pinbox-node detach 2 --yes`,
		Long: `Remove a store if no set, no container, no layer of CRI-O's own store and no other store
uses it. Otherwise list what uses it.

Without a name, remove all stores that are not used, except the stores that rollback needs.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: f.attachedStores,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !f.settings.DryRun {
				plan := f
				plan.settings.DryRun = true
				var names []string
				removed, _, _ := plan.detach(cmd.Context(), args) // detaching has the same error
				for _, s := range removed {
					names = append(names, stores.Short(s.ID)+", "+bytesize.Format(s.Size))
				}
				if err := confirmRemoval(cmd, names); err != nil {
					return err
				}
			}
			removed, inUse, err := f.detach(cmd.Context(), args)
			return showDetached(cmd, f.output, f.settings.DryRun, removed, inUse, err)
		},
	}
	cmd.Flags().BoolVar(&f.settings.DryRun, "dry-run", false, "show what would be removed, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask on a terminal")
	cli.Under("Store", cmd.Flags())
	f.add(cmd.Flags(), 10*time.Second)
	return cmd
}

// detach detaches the store that an argument names, or all that nothing uses.
func (f nodeFlags) detach(ctx context.Context, args []string) ([]stores.Store, map[string]error, error) {
	if len(args) == 0 {
		return f.open().DetachUnused(ctx)
	}
	removed, err := f.open().Detach(ctx, args[0])
	if err != nil {
		return nil, nil, err
	}
	return []stores.Store{removed}, nil, nil
}

// confirmRemoval asks about stores, if there are any.
func confirmRemoval(cmd *cobra.Command, stores []string) error {
	if len(stores) == 0 {
		return nil
	}
	return cli.Confirm(cmd, fmt.Sprintf("Remove %s: %s? Only the media that brought them bring them back",
		cli.Plural(len(stores), "store"), strings.Join(stores, "; ")))
}
