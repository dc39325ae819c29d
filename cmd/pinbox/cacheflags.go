package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// cacheVariable is the environment variable with the default of --cache-dir.
const cacheVariable = "PINBOX_CACHE_DIR"

// cacheFlags are the flags of the cache of packs.
type cacheFlags struct {
	dir, size string
	none      bool
}

func (f *cacheFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "cache-dir", os.Getenv(cacheVariable),
		"`DIR` of packed layers, for later builds (default: "+cacheVariable+", or pinbox in $XDG_CACHE_HOME or ~/.cache)")
	flags.StringVar(&f.size, "cache-size", "50GiB",
		"`SIZE` that the cache may have after a build, 0 for no limit; the least recently used packs are removed first")
	cli.Words(flags, "cache-size", "10GiB", "50GiB", "200GiB", "0")
	flags.BoolVar(&f.none, "no-cache", false, "neither read packed layers from the cache nor add any")
	cli.Under("Cache", flags)
}

// folder returns the value of --cache-dir, or the user's default folder.
func (f *cacheFlags) folder() (string, error) {
	if f.dir != "" {
		return f.dir, nil
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", builder.ErrCache, err)
	}
	return filepath.Join(home, "pinbox"), nil
}

// cache returns the options of a build. A user without a home folder has no cache.
func (f *cacheFlags) cache(flags *pflag.FlagSet) (c builder.Cache, err error) {
	if f.none {
		if flags.Changed("cache-dir") {
			return c, cli.Usagef("--cache-dir and --no-cache contradict each other")
		}
		return c, nil
	}
	if flags.Changed("cache-dir") && f.dir == "" {
		return c, cli.Usagef("--cache-dir is empty")
	}
	if c.Limit, err = parseSize("cache-size", f.size); err != nil {
		return c, err
	}
	if c.Dir, err = f.folder(); err != nil {
		return builder.Cache{}, nil
	}
	c.Optional = f.dir == ""
	return c, nil
}

// parseSize parses the value of a flag as a number of bytes.
func parseSize(flag, text string) (int64, error) {
	n, err := bytesize.Parse(text)
	if err != nil {
		return 0, cli.Usagef("--%s: %w; write it as 500Mi or 50Gi", flag, err)
	}
	return n, nil
}
