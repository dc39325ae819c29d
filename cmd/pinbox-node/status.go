package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
)

func statusCommand() *cobra.Command {
	var f passFlags
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sets, images and conditions; exit code 0 only when all is pinned",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			status, err := r.Look(cmd.Context())
			if err != nil {
				return err
			}
			if output == "table" {
				return printStatus(cmd.OutOrStdout(), status)
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			if err := enc.Encode(status); err != nil || status.Healthy() {
				return err
			}
			return errUnhealthy
		},
	}
	f.nodeFlags.add(cmd.Flags(), 10*time.Second)
	cmd.Flags().StringVar(&output, "output", "table", "table, or json for programs")
	return cmd
}
