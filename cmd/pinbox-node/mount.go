package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

func mountCommand() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:     "mount",
		Short:   "Mount the attached stores that are intact and have their base, before CRI-O starts",
		Example: "  pinbox-node mount",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := f.open().Mount(cmd.Context())
			if all == nil {
				return err
			}
			return errors.Join(err, showStores(cmd.OutOrStdout(), f.output, all))
		},
	}
	// CRI-O waits for this command. Another command that holds the lock, perhaps for minutes, mounts
	// the stores first.
	f.add(cmd.Flags(), 5*time.Second)
	return cmd
}
