package main

import (
	"math"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/pinset"
)

func lintCommand() *cobra.Command {
	var output cli.Output
	var lockPath string
	cmd := &cobra.Command{
		Use:   "lint [--lock FILE] PATH...",
		Short: "List what in Kubernetes manifests would make a node contact a registry",
		Long: `lint reads files and folders of Kubernetes objects, or stdin as "-":

  helm template chart/ | pinbox lint --lock out/ -

It contacts no registry. The exit code is 3 if it finds something.`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: cli.FileArgs(math.MaxInt, "yaml", "yml", "json"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			var lock pinset.Lock
			if lockPath != "" {
				var err error
				if lock, err = artifact.ReadLock(lockPath); err != nil {
					return err
				}
			}
			objects, err := source.ReadObjects(paths, cmd.InOrStdin())
			if err != nil {
				return err
			}
			findings := lint.Check(objects, lock)
			err = printFindings(cmd, output, lockPath, objects, findings, lint.Unchecked(objects, lock))
			if err != nil {
				return err
			}
			if len(findings) > 0 {
				return cli.Reported(cli.ExitInput)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&lockPath, "lock", "",
		"`PATH` of a lock, or of the folder or ISO of an appliance, that lists the images of the node")
	cli.Files(cmd.Flags(), "lock", "iso", "json")
	cli.Under("Inputs", cmd.Flags())
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}
