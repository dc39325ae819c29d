package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
)

func planCommand() *cobra.Command {
	var in inputFlags
	var from []string
	var names names
	cmd := &cobra.Command{
		Use:   "plan {-c appliance.yaml | --set sets.yaml}",
		Short: "Show what an appliance would contain, and write nothing",
		Example: `  pinbox plan --set sets/
  pinbox plan -c appliance.yaml --from old/    # what a delta would have`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := in.options()
			if err != nil {
				return err
			}
			opts.From = from
			progress := cli.NewProgress(cmd, in.output)
			opts.Hooks = hooks(progress)
			lock, missing, warnings, err := builder.PlanDelta(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			return printPlan(cmd, in.output, names, lock, missing, warnings)
		},
	}
	addFrom(cmd.Flags(), &from)
	in.add(cmd.Flags())
	in.output.Add(cmd.Flags())
	names.add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	cli.AddProgress(cmd)
	return cli.Common(cmd, "from", "config", "set", "image", "image-list", "manifests", "release", "oc-mirror",
		"oci", "locked", "platform", "mirrors", "authfile", "output", "no-trunc")
}
