package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/cmd/cli"
)

func fleetApplyCommand() *cobra.Command {
	var cluster clusterFlags
	var waves waveFlags
	var files []string
	cmd := &cobra.Command{
		Use:   "apply -f SETS [ROLLOUT]",
		Short: "Change the sets of the nodes, in waves",
		Long: `apply writes sets to the API of a cluster, and a rollout that releases them to the nodes
in waves. A wave is LIMIT or NAME=LIMIT. LIMIT is the number of nodes that have the sets
at its end: a number, a percentage, or rest. "pinbox fleet controller" advances the rollout.

  pinbox fleet apply -f sets/ --wave canary=1 --wave 10% --wave rest --success 95%
  pinbox fleet status --wait

Without a name, the rollout is fleet. Nodes that the Machine Config Operator
manages do not wait for waves.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := waves.spec()
			if err != nil {
				return err
			}
			sets, warnings, err := source.ReadSets(files)
			if err != nil {
				return err
			}
			for _, warning := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), warning)
			}
			api, err := cluster.connect()
			if err != nil {
				return err
			}
			changed, err := api.Apply(cmd.Context(), rolloutName(args), spec, sets)
			return reportSets(cmd, changed, err)
		},
	}
	flags := cmd.Flags()
	cluster.add(flags)
	flags.StringArrayVarP(&files, "filename", "f", nil, "`PATH` of a file or folder of sets (several: repeat the flag)")
	cli.Files(flags, "filename", "yaml", "yml", "json")
	cli.Under("Inputs", flags)
	waves.add(flags)
	cli.Under("Waves", flags)
	return cmd
}
