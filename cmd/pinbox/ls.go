package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/cmd/cli"
)

func lsCommand() *cobra.Command {
	var output cli.Output
	var from looked
	var long, deep bool
	cmd := &cobra.Command{
		Use:   "ls OUT [IMAGE [PATH]]",
		Short: "List the images of a store, or the files of an image as a container sees them",
		Example: `  pinbox ls out/
  pinbox ls -l out/ nginx /etc`,
		Long: `List the images of a store: name and digest. With IMAGE, list the files in the folder PATH of the
image, by default its root, as a container sees them: without what upper layers delete.` + lookedHelp,
		Args: cobra.RangeArgs(1, 3), ValidArgsFunction: cli.FileArgs(1, "iso", "squashfs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := cli.NewProgress(cmd, output)
			images, err := from.open(cmd, args[0], hooks(progress))
			progress.Close()
			if err != nil {
				return err
			}
			defer images.Close()
			if len(args) == 1 {
				return printImages(cmd.OutOrStdout(), output, images)
			}
			v, err := images.View(args[1])
			if err != nil {
				return err
			}
			return printFiles(cmd, output, long, func(visit func(look.File) error) error {
				return v.List(strings.Join(args[2:], ""), deep, visit)
			})
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVarP(&long, "long", "l", false, "also show mode, user, group, size and time, and where links lead")
	cmd.Flags().BoolVarP(&deep, "recursive", "R", false, "also list the files of folders, by their paths from PATH")
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}
