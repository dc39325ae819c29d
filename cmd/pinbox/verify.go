package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
)

func verifyCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "verify {out/ | appliance.iso}",
		Short: "Hash again everything that was built, and compare",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			progress := newProgress(cmd.ErrOrStderr(), output)
			verified, err := builder.Verify(cmd.Context(), args[0], progress.hooks())
			progress.close()
			if err != nil {
				return err
			}
			return printVerified(cmd, output, verified)
		},
	}
	addOutput(cmd.Flags(), &output)
	return cmd
}
