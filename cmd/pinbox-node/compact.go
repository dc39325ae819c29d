package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
)

func compactCommand() *cobra.Command {
	var f planFlags
	var output cli.Output
	o := stores.CompactOptions{Fits: func(bytes int64) error { return f.room(bytes) }}
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Write the attached stores as one, which takes their place when CRI-O starts next",
		Long: `Write the attached stores as one, without what nothing refers to any more, so that
the chain of deltas does not grow past the slots. It takes their place when CRI-O
starts next; until then they stay. It works at low priority.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			keeper, err := f.keeper()
			if err != nil {
				return err
			}
			if o.Root, err = f.mainRoot(cmd.Context()); err != nil {
				return err
			}
			yield()
			progress := cli.NewProgress(cmd.ErrOrStderr(), output)
			o.Write = writeCompacted(keeper.Dir, progress.Track("write the store"))
			c, err := keeper.Compact(cmd.Context(), o)
			progress.Close()
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, compacted{c.Store.ID, c.Store.Size, c.Replaces}, nil)
		},
	}
	f.nodeFlags.add(cmd.Flags(), 10*time.Second)
	cmd.Flags().StringVar(&f.reserve, "reserve", runtime.DefaultReserve.String(), "space to leave free: bytes, a share, or the lesser of both")
	cmd.Flags().BoolVar(&o.All, "all", false, "compact the appliance's own store too; its place is not free by that")
	output.Add(cmd.Flags())
	return cmd
}
