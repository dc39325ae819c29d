package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
)

func lockCommand() *cobra.Command {
	var in inputFlags
	var out string
	cmd := &cobra.Command{
		Use:   "lock -c appliance.yaml",
		Short: "Resolve all inputs to digests, and write the lock next to the appliance file",
		Example: `  pinbox lock -c appliance.yaml
  pinbox lock -c appliance.yaml --update    # tags as they are now`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := in.options()
			if err != nil {
				return err
			}
			if out == "" {
				out = in.lockPath()
			}
			if err := checkLockFile(out); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, in.output)
			opts.Hooks = hooks(progress)
			lock, warnings, err := builder.Plan(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			if err := artifact.WriteLock(out, lock); err != nil {
				return err
			}
			return printLocked(cmd, in.output, locked{out, len(lock.Images), warnings})
		},
	}
	in.add(cmd.Flags())
	addOut(cmd.Flags(), &out, "`FILE` to write (default: appliance.lock.json for appliance.yaml)", &in.output)
	cli.AddProgress(cmd)
	return cli.Common(cmd, "config", "set", "image", "image-list", "manifests", "release", "oc-mirror", "oci",
		"lock", "update", "platform", "mirrors", "authfile", "out", "output")
}
