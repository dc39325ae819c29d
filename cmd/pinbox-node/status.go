package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func statusCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sets, images, stores and conditions; exit code 0 only when all is pinned",
		Example: `  pinbox-node status
  pinbox-node status --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := f.open().Status(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, statusOfAll(status), problem(status))
		},
	}
	f.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
