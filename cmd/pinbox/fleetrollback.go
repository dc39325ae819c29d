package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func fleetRollbackCommand() *cobra.Command {
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "rollback [ROLLOUT]",
		Short: "Give nodes the sets that all of them had before a rollout",
		Long: `rollback gives the sets of a rollout the contents that all nodes had before it, and takes
the sets out of the rollout: nodes go back at once, without waves, whether a controller
runs or not. A set that the rollout has created is deleted. "pinbox fleet apply" noted the
contents in the annotation pinbox.dev/previous of each set. A rollout that is not named has
the name fleet.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := cluster.connect()
			if err != nil {
				return err
			}
			names, err := api.Rollback(cmd.Context(), rolloutName(args))
			return reportSets(cmd, names, err)
		},
	}
	cluster.add(cmd.Flags())
	cli.Under("Inputs", cmd.Flags())
	return cmd
}
