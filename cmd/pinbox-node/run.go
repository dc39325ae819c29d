package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/node"
)

func runCommand() *cobra.Command {
	var f passFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep running, and make a pass when the sets change and at intervals",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := cli.Output("").Log(cmd.ErrOrStderr())
			f.logTo(log)
			return node.Run(cmd.Context(), f.Options, f.interval, log)
		},
	}
	f.addService(cmd.Flags(), 5*time.Second)
	return cmd
}
