package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
)

func diffCommand() *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two locks, folders or ISOs: images and layers added, removed and unchanged",
		Args:  cobra.ExactArgs(2), ValidArgsFunction: cli.FileArgs(2, "iso", "json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var locks [2]pinset.Lock
			for i, name := range args {
				var err error
				if locks[i], err = artifact.ReadLock(name); err != nil {
					return err
				}
			}
			return printDifference(cmd, output, pinset.Compare(locks[0], locks[1]))
		},
	}
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}

func printDifference(cmd *cobra.Command, output cli.Output, d pinset.Difference) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), d)
	}
	w := cmd.OutOrStdout()
	for _, pin := range d.Removed {
		fmt.Fprintf(w, "- %s\n", pin)
	}
	for _, pin := range d.Added {
		fmt.Fprintf(w, "+ %s\n", pin)
	}
	for _, tag := range d.MovedTags {
		fmt.Fprintf(w, "%s is a tag of another image now\n", tag)
	}
	_, err := fmt.Fprintf(w, "images: %d added, %d removed, %d unchanged\nlayers: %s added, %s removed, %s unchanged\n",
		len(d.Added), len(d.Removed), len(d.Unchanged),
		volume(d.LayersAdded), volume(d.LayersRemoved), volume(d.LayersUnchanged))
	return err
}

func volume(v pinset.BlobTotals) string {
	return fmt.Sprintf("%d (%s)", v.Count, bytesize.Format(v.Bytes))
}
