package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func compactCommand() *cobra.Command {
	var f nodeFlags
	var all bool
	cmd := &cobra.Command{
		Use:     "compact",
		Short:   "Write the attached stores as one, which replaces them when CRI-O starts next",
		Example: "  pinbox-node compact --dry-run",
		Long: `Write the attached stores as one, without what is not used any more, so that a chain
of deltas does not use all slots. The new store replaces the others when CRI-O starts
next; until then they stay. The command runs at low priority.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			progress := cli.NewProgress(cmd, f.output)
			c, err := f.open().Compact(cmd.Context(), all, progress.Track("write the store"))
			progress.Close()
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), f.output, compacted{
				DryRun: f.settings.DryRun && c.Store.ID == "", Digest: c.Store.ID, Bytes: c.Store.Size, Replaces: c.Replaces,
			}, nil)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false,
		"compact the appliance's own store too; its space is not freed")
	cmd.Flags().BoolVar(&f.settings.DryRun, "dry-run", false, "show what would be replaced, and change nothing")
	cli.Under("Store", cmd.Flags())
	f.add(cmd.Flags(), 10*time.Second)
	cli.AddProgress(cmd)
	return cmd
}
