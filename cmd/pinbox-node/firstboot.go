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
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			release, err := f.lock(cmd.Context(), func(text string) { log.Info(text) })
			if err != nil {
				return err
			}
			defer release()
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			r.Hooks = logged(log)
			status, err := r.Pass(cmd.Context())
			if err != nil {
				return err
			}
			var unhealthy error
			if !status.Healthy() {
				unhealthy = errUnhealthy
			}
			return show(cmd.OutOrStdout(), output, shownStatus(status), unhealthy)
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, or json for programs")
	return cmd
}
