package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/neighbour"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/storage/layout"
)

func serveCommand() *cobra.Command {
	var o node.Options
	var s node.ServeOptions
	var rate runtime.Rate
	cmd := &cobra.Command{
		Use:     "serve --interface NAME",
		Short:   "Offer the files of the node's stores to its neighbours, to be read by their digests",
		Example: "  pinbox-node serve --interface eth0",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Interface == "" {
				return cli.Usagef("name the network of the neighbours with --interface")
			}
			if s.Uploads < 1 || s.Connections < 1 {
				return cli.Usagef("--uploads and --connections are at least 1")
			}
			s.Rate = int64(rate)
			return node.Serve(cmd.Context(), o, &s, cli.Output("").Log(cmd.ErrOrStderr()))
		},
	}
	cmd.Flags().StringVar(&s.Interface, "interface", "", "`NAME` of the network interface at whose addresses it listens")
	cmd.Flags().StringVar(&s.Port, "port", neighbour.DefaultPort, "`PORT` where it listens")
	cmd.Flags().StringVar(&o.State, "state", layout.NodeDir, "`DIR` of the attached stores and other state")
	cli.Under("Node", cmd.Flags())
	cmd.Flags().IntVar(&s.Uploads, "uploads", 4,
		"`NUMBER` of files that it sends at once; who asks for more is told to wait")
	cmd.Flags().IntVar(&s.Connections, "connections", 256, "`NUMBER` of connections at once; it closes others")
	cmd.Flags().TextVar(&rate, "rate", runtime.Rate(0),
		"`RATE` at which it sends all files together, as 20MB/s (default: no limit)")
	cli.Under("Limits", cmd.Flags())
	return cmd
}
