package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/cache"
)

func cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cache", Short: "Look after the packed layers that builds keep", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("give one of ls, prune and verify")
		},
	}
	cmd.AddCommand(cacheListCommand(), cachePruneCommand(), cacheVerifyCommand())
	return cmd
}

// openCache opens the folder that a build would use. It makes none: one that is named
// must be there, and without that of the user there is nothing.
func openCache(named string) (cache.Cache, error) {
	dir, err := (&cacheFlags{dir: named}).folder()
	if err != nil {
		return cache.Cache{}, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && named == "" {
		return cache.Cache{}, nil
	} else if err != nil {
		return cache.Cache{}, err
	}
	return cache.Open(dir)
}

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

func cachePruneCommand() *cobra.Command {
	var dir, keep string
	var output cli.Output
	var all bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove packs, what was used least recently first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (keep == "") != all {
				return cli.Usagef("give one of --keep and --all")
			}
			limit, err := parseSize("keep", cmp.Or(keep, "0"))
			if err != nil {
				return err
			}
			kept, err := openCache(dir)
			if err != nil {
				return err
			}
			removed, err := kept.Prune(limit)
			return errors.Join(printEntries(cmd, output, "removed", removed), err)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "`SIZE` that may stay, such as 10GiB")
	cli.Words(cmd.Flags(), "keep", "10GiB", "50GiB")
	cmd.Flags().BoolVar(&all, "all", false, "remove all packs of layers")
	addCacheDir(cmd, &dir, &output)
	return cmd
}

func cacheVerifyCommand() *cobra.Command {
	var dir string
	var output cli.Output
	cmd := &cobra.Command{
		Use: "verify", Short: "Read all that is kept, and remove what a disk has damaged", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kept, err := openCache(dir)
			if err != nil {
				return err
			}
			return verifyCache(cmd, kept, output)
		},
	}
	addCacheDir(cmd, &dir, &output)
	return cmd
}
