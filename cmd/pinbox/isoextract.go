package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
)

func isoExtractCommand() *cobra.Command {
	var ignition, store, lock bool
	cmd := &cobra.Command{
		Use:   "extract appliance.iso {--ignition | --store | --lock} > file",
		Short: "Write a part of an ISO to standard output",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			stdout, isTerminal := cli.Content(cmd.OutOrStdout())
			if store && isTerminal {
				return cli.Usagef("a store is binary: write it to a file or a pipe")
			}
			switch {
			case ignition && !store && !lock:
				return artifact.ExtractIgnition(cmd.Context(), args[0], stdout)
			case store && !ignition && !lock:
				return artifact.ExtractStore(cmd.Context(), args[0], stdout)
			case lock && !ignition && !store:
				return artifact.ExtractLock(cmd.Context(), args[0], stdout)
			}
			return cli.Usagef("give one of --ignition, --store and --lock")
		},
	}
	cmd.Flags().BoolVar(&ignition, "ignition", false, "write the Ignition config")
	cmd.Flags().BoolVar(&store, "store", false, "write the image store, a squashfs")
	cmd.Flags().BoolVar(&lock, "lock", false, "write the lock, as JSON")
	cli.Under("Parts", cmd.Flags())
	return cmd
}
