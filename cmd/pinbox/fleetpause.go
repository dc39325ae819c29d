package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func fleetPauseCommand() *cobra.Command {
	return pauseCommand(true, "pause [ROLLOUT]", "Pause a rollout: release it to no more nodes", "paused",
		`pause stops a rollout. Nodes that are released already continue; no more nodes are released
until "pinbox fleet resume". Without a name, the rollout is fleet.`)
}

func fleetResumeCommand() *cobra.Command {
	return pauseCommand(false, "resume [ROLLOUT]", "Continue a rollout that was paused", "resumed",
		`resume ends "pinbox fleet pause". A rollout that is paused because nodes fail needs no resume:
it continues when enough of them are ready, or when the sets are changed. Without a name, the
rollout is fleet.`)
}

// pauseCommand pauses or resumes a rollout.
func pauseCommand(paused bool, use, short, done, long string) *cobra.Command {
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := cluster.connect()
			if err != nil {
				return err
			}
			if err := api.Pause(cmd.Context(), rolloutName(args), paused); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "rollout %s: %s\n", rolloutName(args), done)
			return nil
		},
	}
	cluster.add(cmd.Flags())
	cli.Under("Inputs", cmd.Flags())
	return cmd
}
