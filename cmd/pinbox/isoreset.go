package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
)

func isoResetCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "reset appliance.iso -o pristine.iso",
		Short: "Restore the base of an ISO, byte for byte",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Usagef("name the file to write with -o")
			}
			progress := cli.NewProgress(cmd, "")
			err := artifact.Reset(cmd.Context(), args[0], out, hooks(progress))
			progress.Close()
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "`FILE` of the ISO to write")
	cli.Under("Output", cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}
