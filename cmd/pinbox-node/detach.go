package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/runtime/stores"
)

func detachCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "detach [SLOT | NAME | DIGEST]",
		Short: "Remove a store that is not used; without a name, all of them",
		Long: `Remove a store to which nothing refers any more: no set, no container, no layer
of CRI-O's own store, and no store that stands on it. What refers to it is named.

Without a name all such stores are removed, but for those that rollback may want.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: f.attachedStores,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				gone, kept, err := node.DetachUnused(cmd.Context(), f.Options)
				return showDetached(cmd, output, gone, kept, err)
			}
			gone, err := node.Detach(cmd.Context(), f.Options, args[0])
			if err != nil {
				return err
			}
			return showDetached(cmd, output, []stores.Store{gone}, nil, nil)
		},
	}
	f.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
