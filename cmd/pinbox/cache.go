package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/fault"
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

func cacheListCommand() *cobra.Command {
	var dir string
	var output cli.Output
	cmd := &cobra.Command{
		Use: "ls", Short: "List the packs, the least recently used first", Args: cobra.NoArgs,
		Example: "  pinbox cache ls",
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

func cachePruneCommand() *cobra.Command {
	var dir, keep string
	var output cli.Output
	var all bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove packs, the least recently used first", Args: cobra.NoArgs,
		Example: "  pinbox cache prune --keep 20GiB",
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

func cacheVerifyCommand() *cobra.Command {
	var dir string
	var output cli.Output
	cmd := &cobra.Command{
		Use: "verify", Short: "Read all packs, and remove damaged ones", Args: cobra.NoArgs,
		Example: "  pinbox cache verify",
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

func addCacheDir(cmd *cobra.Command, dir *string, output *cli.Output) {
	cmd.Flags().StringVar(dir, "cache-dir", os.Getenv(cacheVariable),
		"`DIR` of packed layers (default: "+cacheVariable+", or pinbox in $XDG_CACHE_HOME or ~/.cache)")
	cli.Under("Cache", cmd.Flags())
	output.Add(cmd.Flags())
}

// verifyCache fails if a pack was damaged, although the pack is removed: the disk may damage more.
func verifyCache(cmd *cobra.Command, packs cache.Cache, output cli.Output) error {
	entries, err := packs.Entries()
	if err != nil {
		return err
	}
	all := int64(0)
	for _, e := range entries {
		all += e.Size
	}
	progress := cli.NewProgress(cmd, output)
	progress.Begin("read packs", all)
	damaged, err := packs.Verify(cmd.Context(), progress.Add)
	progress.Close()
	if len(damaged) > 0 {
		err = errors.Join(printEntries(cmd, output, "damaged and removed", damaged), err)
		return errors.Join(err, cli.Reported(fault.Damaged))
	}
	if err != nil {
		return err
	}
	return printEntries(cmd, output, "damaged", nil)
}

func printEntries(cmd *cobra.Command, output cli.Output, what string, entries []cache.Entry) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), append([]cache.Entry{}, entries...))
	}
	w := cli.Table(cmd.OutOrStdout())
	total := int64(0)
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Digest, e.Encoding, bytesize.Format(e.Size), e.Used.Format(time.DateTime))
		total += e.Size
	}
	fmt.Fprintf(w, "%s: %s, %s\n", what, cli.Plural(len(entries), "pack"), bytesize.Format(total))
	return w.Flush()
}

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
