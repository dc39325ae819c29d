package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func rollbackCommand() *cobra.Command {
	var f nodeFlags
	var to string
	var dry bool
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Make the previous release current again, without a registry",
		Example: `  pinbox-node rollback --dry-run
  pinbox-node rollback --to 3`,
		Long: `Make the release current that was current before, with its sets. The next rollback goes
forward again. With --to, make another release current that the node keeps.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				p, err := f.open().PlanRollback(cmd.Context(), to)
				if err != nil {
					return err
				}
				return show(cmd.OutOrStdout(), f.output, describePlan(p), nil)
			}
			release, err := f.open().Rollback(cmd.Context(), to)
			if err != nil {
				return err
			}
			status, err := f.open().ApplySets(cmd.Context())
			return showRelease(cmd, f.output, release, status, err)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`RELEASE` by its number, name, digest or slot; 0 is the appliance's own")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would be pinned and unpinned, and change nothing")
	cli.Under("Store", cmd.Flags())
	f.add(cmd.Flags(), 2*time.Minute)
	return cmd
}
