package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
)

func verifyCommand() *cobra.Command {
	var output cli.Output
	var bases []string
	var deep bool
	cmd := &cobra.Command{
		Use:   "verify {out/ | appliance.iso | delta/ --base old/}",
		Short: "Check all hashes of an appliance, and that its files agree",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := cli.NewProgress(cmd.ErrOrStderr(), output)
			verified, err := verify.WithBases(cmd.Context(), args[0], bases, hooks(progress))
			if err == nil && deep {
				verified.Layers, err = verify.Layers(cmd.Context(), append(args, bases...), hooks(progress))
			}
			progress.Close()
			if err != nil {
				return err
			}
			return printVerified(cmd, output, verified)
		},
	}
	cmd.Flags().StringArrayVar(&bases, "base", nil,
		"`PATH` of the folder or ISO that a delta was built over, to check both together; may be repeated, once for "+
			"each store of the chain")
	cli.Files(cmd.Flags(), "base", "iso")
	cmd.Flags().BoolVar(&deep, "deep", false, "also read all layers out of the store, and compare them with their DiffIDs")
	cli.Under("Inputs", cmd.Flags())
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
