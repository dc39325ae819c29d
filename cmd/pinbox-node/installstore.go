package main

import (
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/partition"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
)

func installStoreCommand() *cobra.Command {
	var o partition.Options
	var check bool
	var output cli.Output
	cmd := &cobra.Command{
		Use:     "install-store DISK",
		Short:   "Copy the store of a medium to a partition on a disk that has CoreOS",
		Example: "  pinbox-node install-store --check /dev/sda",
		Args:    named("the disk", 1), ValidArgsFunction: anyFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Disk = args[0]
			if check {
				return partition.Check(o)
			}
			progress := cli.NewProgress(cmd, output)
			o.Done = progress.Track("copy the store and read it again")
			r, err := partition.Install(cmd.Context(), o)
			progress.Close()
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, installed{r.Digest, layout.PartitionLabel, r.Size}, nil)
		},
	}
	cmd.Flags().StringVar(&o.Medium, "medium", path.Dir(layout.LiveStorePath), "`DIR` of the store and its sums")
	cmd.Flags().BoolVar(&check, "check", false, "only check whether the store fits, before a system is installed")
	cmd.Flags().BoolVar(&o.Erase, "erase", false,
		"make a new partition table with the store alone, for an installer that keeps it; all else on the disk is lost")
	cli.Under("Store", cmd.Flags())
	output.Add(cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}

// installed is the result of `install-store --output json`.
type installed struct {
	Digest    string `json:"digest"`
	Partition string `json:"partition"`
	Bytes     int64  `json:"bytes"` // of the partition
}

func (i installed) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "the store, %s, is in a partition %s of %s\n",
		i.Digest, i.Partition, bytesize.Format(i.Bytes))
	return err
}
