package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
)

func buildCommand() *cobra.Command {
	var f buildFlags
	var iso isoFlags
	cmd := &cobra.Command{
		Use:   "build {-c appliance.yaml | --set sets.yaml} -o out/",
		Short: "Build the image store, the Ignition config and the live ISO",
		Example: `  pinbox build -c appliance.yaml -o out/
  pinbox build --set worker.yaml --set infra.yaml -o out/
  pinbox build -c appliance.yaml -o out/ --iso rhcos-live.iso --kargs-append console=ttyS0`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.in.options()
			if err != nil {
				return err
			}
			if err := iso.apply(cmd.Flags(), &opts.Appliance.Spec.ISO); err != nil {
				return err
			}
			if err := f.complete(cmd, &opts); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, f.in.output)
			opts.Hooks = hooks(progress)
			result, err := builder.Build(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			return printBuilt(cmd, f.in.output, result)
		},
	}
	f.addInputs(cmd)
	iso.add(cmd.Flags())
	f.addOutputs(cmd)
	return cli.Common(cmd, "config", "set", "image", "image-list", "manifests", "release", "oc-mirror", "oci",
		"platform", "release-number", "authfile", "out", "output", "iso", "install-device")
}

// buildFlags are the flags of the commands that make a folder with a store.
type buildFlags struct {
	in    inputFlags
	cache cacheFlags
	sign  signFlags
	out   string
}

func (f *buildFlags) addInputs(cmd *cobra.Command) {
	f.in.add(cmd.Flags())
	f.in.addAPI(cmd.Flags())
	f.in.addLevel(cmd.Flags())
}

func (f *buildFlags) addOutputs(cmd *cobra.Command) {
	f.cache.add(cmd.Flags())
	f.sign.add(cmd.Flags())
	addOut(cmd.Flags(), &f.out, "`DIR` to make; it appears complete or not at all", &f.in.output)
	cli.AddProgress(cmd)
	cli.Interrupted(cmd, "the cache keeps the layers that were read, unless --no-cache; run the command again to go on")
}

// complete sets the options of a build that are not inputs.
func (f *buildFlags) complete(cmd *cobra.Command, o *builder.Options) (err error) {
	if f.out == "" { // cobra would report a missing flag without its meaning
		return cli.Usagef("name the folder to make with -o")
	}
	o.Out = f.out
	if o.Cache, err = f.cache.cache(cmd.Flags()); err != nil {
		return err
	}
	o.Signer, err = f.sign.signer(cmd)
	return err
}
