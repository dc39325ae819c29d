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

// cacheFlags say where packed layers are kept.
type cacheFlags struct {
	dir, size string
	none      bool
}

func (f *cacheFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "cache-dir", "",
		"`DIR` that keeps packed layers for later builds (default: pinbox in $XDG_CACHE_HOME or ~/.cache)")
	flags.StringVar(&f.size, "cache-size", "50GiB",
		"`SIZE` that the cache may have after a build, 0 for any; what was used least recently goes first")
	cli.Words(flags, "cache-size", "10GiB", "50GiB", "200GiB", "0")
	flags.BoolVar(&f.none, "no-cache", false, "keep no layers, and use none that were kept")
	cli.Folders(flags, "cache-dir")
	cli.Under("Cache", flags)
}

// folder is the one that is named, or that of the user.
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

// cache is what a build takes. A user without a home has none.
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

// parseSize reads the number of bytes that a flag takes.
func parseSize(flag, text string) (int64, error) {
	n, err := bytesize.Parse(text)
	if err != nil {
		return 0, cli.Usagef("--%s: %w; write it as 500Mi or 50Gi", flag, err)
	}
	return n, nil
}
