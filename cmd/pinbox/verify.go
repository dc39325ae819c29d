package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/signature"
)

func verifyCommand() *cobra.Command {
	var output cli.Output
	var bases []string
	var deep bool
	var key string
	cmd := &cobra.Command{
		Use:   "verify {out/ | appliance.iso | delta/ --base old/}",
		Short: "Check all hashes of an appliance, and that its files agree",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := cli.NewProgress(cmd, output)
			verified, err := verifyAll(cmd.Context(), args[0], key, bases, hooks(progress))
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
	cmd.Flags().StringVar(&key, "key", "",
		"`FILE` of public keys in PEM, one of which must have signed the sums")
	cli.Files(cmd.Flags(), "key", "pub", "pem")
	cli.Under("Inputs", cmd.Flags())
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}

// verifyAll checks the signatures first, if there is a key, since only they say who made the rest.
func verifyAll(
	ctx context.Context, name, key string, bases []string, hooks progress.Hooks,
) (v verify.Result, err error) {
	var signed []string
	if key != "" {
		keys, err := signature.ReadKeys(key)
		if err != nil {
			return v, err
		}
		if signed, err = verify.Signatures(ctx, name, keys, hooks); err != nil {
			return v, err
		}
	}
	v, err = verify.WithBases(ctx, name, bases, hooks)
	v.Signed = signed
	return v, err
}
