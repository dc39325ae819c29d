package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"
)

func firstbootCommand() *cobra.Command {
	var f passFlags
	var output string
	cmd := &cobra.Command{
		Use:   "firstboot",
		Short: "Make one pass: pin every image of the sets, pull what is missing, write the status",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			r, end, err := f.alone(cmd.Context(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
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
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json for programs")
	return cmd
}
