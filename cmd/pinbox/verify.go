package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/verify"
)

func verifyCommand() *cobra.Command {
	var output string
	var bases []string
	cmd := &cobra.Command{
		Use:   "verify {out/ | appliance.iso | delta/ --base old/}",
		Short: "Hash again everything that was built, and compare",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			progress := newProgress(cmd.ErrOrStderr(), output)
			verified, err := verify.WithBases(cmd.Context(), args[0], bases, progress.hooks())
			progress.close()
			if err != nil {
				return err
			}
			return printVerified(cmd, output, verified)
		},
	}
	cmd.Flags().StringArrayVar(&bases, "base", nil, "folder or ISO of what a delta stands on, so that it is checked with that; may be repeated, for all that stand together")
	addOutput(cmd.Flags(), &output)
	return cmd
}
