package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
)

func isoShowCommand() *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "show image.iso",
		Short: "Show label, architecture, Ignition area, kernel arguments, and what pinbox added",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := artifact.Inspect(args[0])
			if err != nil {
				return err
			}
			return printISO(cmd, output, info)
		},
	}
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
