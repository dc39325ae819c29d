package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func deltaCommand() *cobra.Command {
	var in inputFlags
	var cache cacheFlags
	var sign signFlags
	var site siteFlags
	var from []string
	var thin bool
	var out string
	cmd := &cobra.Command{
		Use:   "delta --from old/ {-c appliance.yaml | --set sets.yaml} -o delta/",
		Short: "Build a store of the layers that nodes lack, to mount in addition to theirs",
		Example: `  pinbox delta --from old/ -c appliance.yaml -o delta/
  pinbox delta --from old.iso --from older/pinbox.lock.json --set worker.yaml -o delta/
  pinbox delta --from old/ -c appliance.yaml --node-binary pinbox-node-arm64 -o delta/
  pinbox delta --from old/ -c appliance.yaml -o delta/ --thin
  pinbox delta --from reports/ -c appliance.yaml -o deltas/ --max-deltas 3`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := in.options()
			if err != nil {
				return err
			}
			opts.From, opts.Thin = from, thin
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
			show, err := site.build(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			return show(cmd, in.output)
		},
	}
	addFrom(cmd.Flags(), &from)
	cmd.Flags().Lookup("from").Usage += "; or a folder of reports of pinbox-node, to make the fewest deltas that serve all"
	site.add(cmd.Flags())
	cmd.Flags().BoolVar(&thin, "thin", false, "write what has changed in the files of the layers, from which nodes "+
		"make the store; --from then needs stores, and not locks")
	cli.Under("Inputs", cmd.Flags())
	in.add(cmd.Flags())
	in.addAPI(cmd.Flags())
	in.addLevel(cmd.Flags())
	cache.add(cmd.Flags())
	sign.add(cmd.Flags())
	addOut(cmd.Flags(), &out, "`DIR` to make; it appears complete or not at all", &in.output)
	cli.AddProgress(cmd)
	cli.Interrupted(cmd, "the cache keeps the layers that were read, unless --no-cache; run the command again to go on")
	return cmd
}
