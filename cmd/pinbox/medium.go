package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func mediumCommand() *cobra.Command {
	var o artifact.MediumOptions
	cmd := &cobra.Command{
		Use:   "medium {out/ | delta/} -o medium.iso",
		Short: "Write a store to an ISO without a system, with the label that the node looks for",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Out == "" {
				return usageError{errors.New("name the file to write with -o")}
			}
			progress := newProgress(cmd.ErrOrStderr(), "text")
			o.Dir, o.Hooks = args[0], progress.hooks()
			err := artifact.Medium(cmd.Context(), o)
			progress.close()
			if err != nil {
				return err
			}
			info, err := artifact.Show(o.Out)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, with the label %s\n", o.Out, bytesize.Format(info.Size), info.Label)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&o.Out, "out", "o", "", "file to write")
	return cmd
}
