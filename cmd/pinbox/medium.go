package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
)

func mediumCommand() *cobra.Command {
	var o artifact.MediumOptions
	var sign signFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "medium {out/ | delta/} -o medium.iso",
		Short: "Write a store to an ISO without a system, with the label that the node looks for",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Out == "" {
				return cli.Usagef("name the file to write with -o")
			}
			var err error
			if o.Signer, err = sign.signer(); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd.ErrOrStderr(), output)
			o.Dir, o.Hooks = args[0], hooks(progress)
			err = artifact.Medium(cmd.Context(), o)
			progress.Close()
			if err != nil {
				return err
			}
			info, err := artifact.Inspect(o.Out)
			if err != nil {
				return err
			}
			return printMedium(cmd, output, o.Out, info)
		},
	}
	sign.add(cmd.Flags())
	addOut(cmd.Flags(), &o.Out, "`FILE` of the ISO to write", &output)
	return cmd
}
