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
		Use:     "mount",
		Short:   "Mount the attached stores that are intact and have their base, before CRI-O starts",
		Example: "  pinbox-node mount",
		Long: `Mount the attached stores that are intact and have their base, before CRI-O starts.

Unknown flags are ignored: node.env has the flags of all services, and a misspelt one
must not keep CRI-O from having its stores.`,
		Args:               cobra.NoArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := f.open().Mount(cmd.Context())
			if all == nil {
				return err
			}
			return errors.Join(err, showStores(cmd.OutOrStdout(), output, all))
		},
	}
	// CRI-O waits for this command. Another command that holds the lock, perhaps for minutes, mounts
	// the stores first.
	f.add(cmd.Flags(), 5*time.Second)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
