package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"
)

func firstbootCommand() *cobra.Command {
	var f passFlags
	cmd := &cobra.Command{
		Use:   "firstboot",
		Short: "Make one pass: pin every image of the sets, pull what is missing, write the status",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			release, err := f.lock(cmd.Context())
			if err != nil {
				return err
			}
			defer release()
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			r.Hooks = logged(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			status, err := r.Pass(cmd.Context())
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), status)
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	return cmd
}
