package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
)

func mediumCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "medium out/ -o medium.iso",
		Short: "Write a store to an ISO without a system, with the label PINBOX",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("name the file to write with -o")}
			}
			return builder.Medium(cmd.Context(), args[0], out, nil)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	return cmd
}
