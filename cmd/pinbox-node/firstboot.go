package main

import (
	"time"

	"github.com/spf13/cobra"
)

func firstbootCommand() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:     "firstboot",
		Short:   "Make one pass: pin every image of the sets, pull what is missing, write the status",
		Example: "  pinbox-node firstboot",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.logTo(f.output.Log(cmd.ErrOrStderr()))
			status, err := f.open().Pass(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), f.output, shownStatus(status), problem(status))
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	return cmd
}
