package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
)

func buildCommand() *cobra.Command {
	var in inputFlags
	var iso isoFlags
	var cache cacheFlags
	var sign signFlags
	var out string
	cmd := &cobra.Command{
		Use:   "build {-c appliance.yaml | --set sets.yaml} -o out/",
		Short: "Build the image store, the Ignition config and the live ISO",
		Example: `  pinbox build -c appliance.yaml -o out/
  pinbox build --set worker.yaml --set infra.yaml -o out/
  pinbox build -c appliance.yaml -o out/ --iso rhcos-live.iso --kargs-append console=ttyS0`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := in.options()
			if err != nil {
				return err
			}
			if err := iso.apply(cmd.Flags(), &opts.Appliance.Spec.ISO); err != nil {
				return err
			}
			if opts.Out, err = requireOut(out); err != nil {
				return err
			}
			if opts.Cache, err = cache.cache(cmd.Flags()); err != nil {
				return err
			}
			if opts.Signer, err = sign.signer(cmd); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, in.output)
			opts.Hooks = hooks(progress)
			result, err := builder.Build(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			return printBuilt(cmd, in.output, result)
		},
	}
	in.add(cmd.Flags())
	in.addAPI(cmd.Flags())
	in.addLevel(cmd.Flags())
	iso.add(cmd.Flags())
	cache.add(cmd.Flags())
	sign.add(cmd.Flags())
	addOut(cmd.Flags(), &out, "`DIR` to make; it appears complete or not at all", &in.output)
	cli.AddProgress(cmd)
	cli.Interrupted(cmd, "the cache keeps the layers that were read, unless --no-cache; run the command again to go on")
	return cmd
}
