package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/cache"
)

func addCacheDir(cmd *cobra.Command, dir *string, output *cli.Output) {
	cmd.Flags().StringVar(dir, "cache-dir", os.Getenv(cacheVariable),
		"`DIR` of packed layers (default: "+cacheVariable+", or pinbox in $XDG_CACHE_HOME or ~/.cache)")
	cli.Under("Cache", cmd.Flags())
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
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
		return errors.Join(err, cli.Reported(cli.ExitDamaged))
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
