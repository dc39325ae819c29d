package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
)

func doctorCommand() *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "doctor {-c appliance.yaml | --set sets.yaml}",
		Short: "Look at all that a build needs, before it reads images for an hour",
		Long: `doctor looks at registries and the credentials for each, images, signatures, the
clock, space, the cache and pinbox-node, and shows all that is wrong. Like plan, it
reads no layers. The exit code is that with which a build would end.`,
		Example: `  pinbox doctor -c appliance.yaml -o out/`,
		Args:    inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.in.options()
			if err != nil {
				return err
			}
			opts.Out = f.out
			if opts.Cache, err = f.cache.cache(cmd.Flags()); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, f.in.output)
			opts.Hooks = hooks(progress)
			findings := builder.Examine(cmd.Context(), opts)
			progress.Close()
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			return printExamined(cmd, f.in.output, findings)
		},
	}
	f.in.add(cmd.Flags())
	f.cache.add(cmd.Flags())
	addOut(cmd.Flags(), &f.out, "`DIR` that the build is to make", &f.in.output)
	cli.AddProgress(cmd)
	return cli.Common(cmd, "config", "set", "image", "image-list", "manifests", "release", "oc-mirror", "oci",
		"platform", "mirrors", "authfile", "out", "output")
}
