package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

func lockCommand() *cobra.Command {
	var in inputFlags
	var out string
	cmd := &cobra.Command{
		Use:   "lock -c appliance.yaml",
		Short: "Resolve all inputs to digests, and write the lock beside the appliance file",
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
			progress := newProgress(cmd.ErrOrStderr(), in.output)
			opts.Hooks = progress.hooks()
			lock, warnings, err := builder.Plan(cmd.Context(), opts)
			progress.close()
			if err != nil {
				return err
			}
			printWarnings(cmd, warnings)
			var b bytes.Buffer
			if err := lock.Encode(&b); err != nil {
				return err
			}
			if _, err := atomicfile.Write(out, b.Bytes(), 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s locks %s\n", out, plural(len(lock.Images), "image"))
			return err
		},
	}
	in.add(cmd.Flags())
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default: appliance.lock.json for appliance.yaml)")
	return cmd
}
