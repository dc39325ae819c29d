package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
)

func catCommand() *cobra.Command {
	var from looked
	cmd := &cobra.Command{
		Use:     "cat OUT IMAGE PATH",
		Short:   "Write a file of an image to stdout",
		Example: `  pinbox cat out/ nginx /etc/nginx/nginx.conf`,
		Long: `Write a file of an image to stdout, as a container sees it. Symbolic links are followed in the
image, and never out of it.` + lookedHelp,
		Args: cobra.ExactArgs(3), ValidArgsFunction: cli.FileArgs(1, "iso", "squashfs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := from.open(cmd, args[0], progress.Hooks{})
			if err != nil {
				return err
			}
			defer images.Close()
			v, err := images.View(args[1])
			if err != nil {
				return err
			}
			stdout, _ := cli.Content(cmd.OutOrStdout())
			return v.Copy(cmd.Context(), args[2], stdout)
		},
	}
	from.add(cmd)
	return cmd
}
