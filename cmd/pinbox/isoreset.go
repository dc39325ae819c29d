package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
)

func isoResetCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "reset appliance.iso -o pristine.iso",
		Short: "Write the base of an ISO, byte for byte as it was",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("name the file to write with -o")}
			}
			progress := newProgress(cmd.ErrOrStderr(), "text")
			err := artifact.Reset(cmd.Context(), args[0], out, progress.hooks())
			progress.close()
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	return cmd
}
