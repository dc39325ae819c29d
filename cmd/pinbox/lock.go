package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

func lockCommand() *cobra.Command {
	var in inputFlags
	var out string
	cmd := &cobra.Command{
		Use:   "lock -c appliance.yaml",
		Short: "Resolve all inputs to digests, and write the lock next to the appliance file",
		Args:  inputsByFlags,
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
			progress := cli.NewProgress(cmd.ErrOrStderr(), in.output)
			opts.Hooks = hooks(progress)
			lock, warnings, err := builder.Plan(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := lock.Encode(&b); err != nil {
				return err
			}
			if _, err := atomicfile.Write(out, b.Bytes(), 0o644); err != nil {
				return err
			}
			return printLocked(cmd, in.output, locked{out, len(lock.Images), warnings})
		},
	}
	in.add(cmd.Flags())
	addOut(cmd.Flags(), &out, "`FILE` to write (default: appliance.lock.json for appliance.yaml)", &in.output)
	return cmd
}
