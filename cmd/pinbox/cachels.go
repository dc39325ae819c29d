package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func cacheListCommand() *cobra.Command {
	var dir string
	var output cli.Output
	cmd := &cobra.Command{
		Use: "ls", Short: "List the packs, the least recently used first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			packs, err := openCache(dir)
			if err != nil {
				return err
			}
			entries, err := packs.Entries()
			if err != nil {
				return err
			}
			return printEntries(cmd, output, "cached", entries)
		},
	}
	addCacheDir(cmd, &dir, &output)
	return cmd
}
