package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func statusCommand() *cobra.Command {
	var f passFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sets, images and conditions; exit code 0 only when all is pinned",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			status, err := r.Look(cmd.Context(), f.busy())
			if err != nil {
				return err
			}
			return showStatus(cmd.OutOrStdout(), output, status)
		},
	}
	f.asBefore, f.reserve = true, "0"
	f.nodeFlags.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	return cmd
}
