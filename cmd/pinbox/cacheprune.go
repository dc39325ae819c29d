package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

func cachePruneCommand() *cobra.Command {
	var dir, keep string
	var output cli.Output
	var all bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove packs, the least recently used first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (keep == "") != all {
				return cli.Usagef("give one of --keep and --all")
			}
			limit, err := parseSize("keep", cmp.Or(keep, "0"))
			if err != nil {
				return err
			}
			packs, err := openCache(dir)
			if err != nil {
				return err
			}
			removed, err := packs.Prune(limit)
			return errors.Join(printEntries(cmd, output, "removed", removed), err)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "`SIZE` that the cache may have afterwards, such as 10GiB")
	cli.Words(cmd.Flags(), "keep", "10GiB", "50GiB")
	cmd.Flags().BoolVar(&all, "all", false, "remove all packs of layers")
	addCacheDir(cmd, &dir, &output)
	return cmd
}
