package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/cache"
)

func cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cache", Short: "List, verify and remove packs, the packed layers of earlier builds", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("give one of ls, prune and verify")
		},
	}
	cmd.AddCommand(cacheListCommand(), cachePruneCommand(), cacheVerifyCommand())
	return cmd
}

// openCache opens the folder that a build would use. A folder that is named must exist; without the
// user's default folder, the cache is empty.
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
