package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func cacheListCommand() *cobra.Command {
	var dir string
	var output cli.Output
	cmd := &cobra.Command{
		Use: "ls", Short: "List the packs of layers that are kept, what was used last at the end", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kept, err := openCache(dir)
			if err != nil {
				return err
			}
			entries, err := kept.Entries()
			if err != nil {
				return err
			}
			return printEntries(cmd, output, "kept", entries)
		},
	}
	addCacheDir(cmd, &dir, &output)
	return cmd
}
