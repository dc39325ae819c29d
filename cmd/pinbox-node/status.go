package main

import (
	"time"

	"github.com/spf13/cobra"
)

func statusCommand() *cobra.Command {
	var f nodeFlags
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
			return show(cmd.OutOrStdout(), f.output, statusOfAll(status), problem(status))
		},
	}
	f.add(cmd.Flags(), 10*time.Second)
	return cmd
}
