package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func firstbootCommand() *cobra.Command {
	var f passFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "firstboot",
		Short: "Make one pass: pin every image of the sets, pull what is missing, write the status",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, end, err := f.alone(cmd.Context(), output.Log(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			defer end()
			status, err := r.Pass(cmd.Context())
			if err != nil {
				return err
			}
			return showStatus(cmd.OutOrStdout(), output, status)
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	output.Add(cmd.Flags())
	return cmd
}
