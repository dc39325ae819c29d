package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func cacheVerifyCommand() *cobra.Command {
	var dir string
	var output cli.Output
	cmd := &cobra.Command{
		Use: "verify", Short: "Read all packs, and remove damaged ones", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			packs, err := openCache(dir)
			if err != nil {
				return err
			}
			return verifyCache(cmd, packs, output)
		},
	}
	addCacheDir(cmd, &dir, &output)
	cli.AddProgress(cmd)
	return cmd
}
