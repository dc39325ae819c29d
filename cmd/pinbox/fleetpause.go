package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func fleetPauseCommand() *cobra.Command {
	return pauseCommand(true, "pause [ROLLOUT]", "Release a rollout to no more nodes", "paused",
		`pause stops a rollout: nodes that are released go on, and no more are released until
"pinbox fleet resume". A rollout that is not named has the name fleet.`)
}

func fleetResumeCommand() *cobra.Command {
	return pauseCommand(false, "resume [ROLLOUT]", "Go on with a rollout that was paused", "resumed",
		`resume ends "pinbox fleet pause". A rollout that is paused since nodes fail goes on by
itself when enough of them are ready, or when the sets are changed. A rollout that is not
named has the name fleet.`)
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
