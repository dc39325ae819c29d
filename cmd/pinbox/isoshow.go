package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
)

func isoShowCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show image.iso",
		Short: "Show label, architecture, Ignition area, kernel arguments, and what pinbox added",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			info, err := artifact.Show(args[0])
			if err != nil {
				return err
			}
			return printISO(cmd, output, info)
		},
	}
	addOutput(cmd.Flags(), &output)
	return cmd
}
