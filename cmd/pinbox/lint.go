package main

import (
	"math"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

func lintCommand() *cobra.Command {
	var output cli.Output
	var lockPath, version string
	cmd := &cobra.Command{
		Use:   "lint [--lock FILE] [--openshift VERSION] PATH...",
		Short: "List what in Kubernetes manifests would make a node contact a registry",
		Example: `  pinbox lint manifests/
  pinbox lint --lock out/pinbox.lock.json cluster.yaml    # of oc get -A -o yaml`,
		Long: `lint reads files and folders of Kubernetes objects, or stdin as "-":

  helm template chart/ | pinbox lint --lock out/ -

With --lock, it groups what is missing of objects that a cluster has printed, with kubectl
get -A -o json or as a must-gather, by namespace and owner.

With --openshift, lint also lists the components of a cluster that always contact a registry;
this needs no PATH. lint itself contacts no registry. The exit code is 3 if there is a finding.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if version != "" {
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		}, ValidArgsFunction: cli.FileArgs(math.MaxInt, "yaml", "yml", "json"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			return runLint(cmd, output, lockPath, version, paths)
		},
	}
	cmd.Flags().StringVar(&lockPath, "lock", "",
		"`PATH` of a lock, or of the folder or ISO of an appliance, that lists the images of the node")
	cli.Files(cmd.Flags(), "lock", "iso", "json")
	cmd.Flags().StringVar(&version, "openshift", "",
		"also list what asks a registry in a cluster of this `VERSION`, as 4.20, and sets without a pool")
	cli.Under("Inputs", cmd.Flags())
	output.Add(cmd.Flags())
	return cmd
}

// runLint prints what it finds. Without a version it does not look at what only OpenShift has.
func runLint(cmd *cobra.Command, output cli.Output, lockPath, version string, paths []string) error {
	var lock pinset.Lock
	var cluster spec.Minor
	var err error
	if version != "" {
		if cluster, err = spec.ParseMinor(version); err != nil {
			return cli.Usagef("--openshift: %w", err)
		}
	}
	if lockPath != "" {
		if lock, err = artifact.ReadLock(lockPath); err != nil {
			return err
		}
	}
	var objects source.Objects
	if len(paths) > 0 {
		if objects, err = source.ReadObjects(cmd.Context(), paths, cmd.InOrStdin()); err != nil {
			return err
		}
	}
	findings, requests := lint.Check(objects, lock), []lint.Request(nil)
	if version != "" {
		findings, requests = append(findings, lint.Pools(objects)...), lint.Requests(cluster)
	}
	var missing []lint.Missing
	if lockPath != "" {
		missing = lint.MissingInCluster(objects, lock)
	}
	err = printFindings(cmd, output, lockPath, objects, findings, requests, missing)
	if err == nil && len(findings) > 0 {
		err = cli.Reported(fault.Input)
	}
	return err
}
