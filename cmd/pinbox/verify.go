package main

import (
	"github.com/spf13/cobra"

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
		Example: `  pinbox verify out/
  pinbox verify delta.iso --base old/ --key site.pub`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := verify.Options{Bases: bases}
			if key != "" {
				var err error
				if o.Keys, err = signature.ReadKeys(key); err != nil {
					return err
				}
			}
			progress := cli.NewProgress(cmd, output)
			o.Hooks = hooks(progress)
			verified, err := verify.Release(cmd.Context(), args[0], o)
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
	cli.AddProgress(cmd)
	return cmd
}
