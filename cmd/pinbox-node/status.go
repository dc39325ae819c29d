package main

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/runtime/pages"
)

func statusCommand() *cobra.Command {
	var f nodeFlags
	var output cli.Output
	var page cli.Page
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sets, images and conditions; exit code 0 only when all is pinned",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := node.Status(cmd.Context(), f.Options)
			if err != nil {
				return err
			}
			if !page.Wanted() {
				return showStatus(cmd.OutOrStdout(), output, status)
			}
			err = page.Write(func(w io.Writer) error { return pages.Node(w, status, "pinbox-node "+version) })
			return errors.Join(err, problem(status))
		},
	}
	f.add(cmd.Flags(), 10*time.Second)
	output.Add(cmd.Flags())
	page.Add(cmd.Flags(), "`FILE` to write a page to, with every image, in place of the text")
	cli.Under("Output", cmd.Flags())
	return cmd
}
