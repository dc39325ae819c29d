package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
)

func isoExtractCommand() *cobra.Command {
	var ignition, store, lock bool
	var pxe string
	cmd := &cobra.Command{
		Use:   "extract appliance.iso {--ignition | --store | --lock} > file",
		Short: "Write a part of an ISO, or the files that boot it from a network",
		Example: `  pinbox iso extract appliance.iso --ignition > config.ign
  pinbox iso extract appliance.iso --pxe pxe/`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			stdout, isTerminal := cli.Content(cmd.OutOrStdout())
			if store && isTerminal {
				return cli.Usagef("a store is binary: write it to a file or a pipe")
			}
			switch {
			case pxe != "" && !ignition && !store && !lock:
				return extractPXE(cmd, args[0], pxe)
			case pxe != "":
			case ignition && !store && !lock:
				return artifact.Extract(cmd.Context(), args[0], artifact.IgnitionFile, stdout)
			case store && !ignition && !lock:
				return artifact.Extract(cmd.Context(), args[0], artifact.ISOStore, stdout)
			case lock && !ignition && !store:
				return artifact.Extract(cmd.Context(), args[0], artifact.ISOLock, stdout)
			}
			return cli.Usagef("give one of --ignition, --store, --lock and --pxe")
		},
	}
	cmd.Flags().BoolVar(&ignition, "ignition", false, "write the Ignition config")
	cmd.Flags().BoolVar(&store, "store", false, "write the image store, a squashfs")
	cmd.Flags().BoolVar(&lock, "lock", false, "write the lock, as JSON")
	cmd.Flags().StringVar(&pxe, "pxe", "",
		"make `DIR` with kernel, ramdisks, Ignition config, and examples for iPXE and GRUB")
	cli.Under("Parts", cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}

func extractPXE(cmd *cobra.Command, name, dir string) error {
	progress := cli.NewProgress(cmd, "")
	names, err := artifact.ExtractPXE(cmd.Context(), name, dir, hooks(progress))
	progress.Close()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", dir, strings.Join(names, ", "))
	return err
}
