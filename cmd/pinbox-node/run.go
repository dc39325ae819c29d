package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func runCommand() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Keep running, and make a pass when the sets change and at intervals",
		Example: "  pinbox-node run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := cli.Output("").Log(cmd.ErrOrStderr())
			f.logTo(log)
			return f.open().Run(cmd.Context(), log)
		},
	}
	f.addNode(cmd.Flags(), 5*time.Second)
	return cmd
}
