package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
)

func planCommand() *cobra.Command {
	var in inputFlags
	cmd := &cobra.Command{
		Use:   "plan {-c appliance.yaml | --set sets.yaml}",
		Short: "Show what a build would hold, and write nothing",
		Args:  inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := in.options()
			if err != nil {
				return err
			}
			progress := newProgress(cmd.ErrOrStderr(), in.output)
			opts.Hooks = progress.hooks()
			lock, warnings, err := builder.Plan(cmd.Context(), opts)
			progress.close()
			if err != nil {
				return err
			}
			return printPlan(cmd, in.output, lock, warnings)
		},
	}
	in.add(cmd.Flags())
	return cmd
}
