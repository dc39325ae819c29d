package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/runtime/partition"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func installStoreCommand() *cobra.Command {
	var o partition.Options
	var check bool
	cmd := &cobra.Command{
		Use:   "install-store DISK",
		Short: "Copy the store of a medium to a partition of its own, on a disk that CoreOS was installed to",
		Args:  named("the disk"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Disk = args[0]
			if check {
				return partition.Check(o)
			}
			o.Done = percent(cmd.OutOrStdout(), "copy the store and read it again")
			r, err := partition.Install(cmd.Context(), o)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "the store, %s, is in a partition %s of %s\n", r.Digest, partition.Label, bytesize.Format(r.Size))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Medium, "medium", "/run/media/iso/pinbox", "folder of the store and its sums")
	cmd.Flags().BoolVar(&check, "check", false, "only say whether it would fit, before a system is installed")
	return cmd
}

// longRead is how many bytes take long enough to tell how far they are.
const longRead = 64 << 20

// percent tells of every tenth of a long way.
func percent(w io.Writer, what string) func(done, all int64) {
	next := int64(10)
	return func(done, all int64) {
		for ; all >= longRead && done*100 >= next*all && next <= 100; next += 10 {
			fmt.Fprintf(w, "%s: %d%%\n", what, next)
		}
	}
}
