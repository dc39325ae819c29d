package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/cache"
)

func addCacheDir(cmd *cobra.Command, dir, output *string) {
	cmd.Flags().StringVar(dir, "cache-dir", "", "folder that builds keep layers in (default: pinbox in $XDG_CACHE_HOME or ~/.cache)")
	addOutput(cmd.Flags(), output)
}

// verifyCache also fails if something was damaged: a disk is not to be trusted.
func verifyCache(cmd *cobra.Command, kept cache.Cache, output string) error {
	entries, err := kept.Entries()
	if err != nil {
		return err
	}
	all := int64(0)
	for _, e := range entries {
		all += e.Size
	}
	progress := newProgress(cmd.ErrOrStderr(), output)
	progress.begin("read layers", all)
	damaged, err := kept.Verify(cmd.Context(), progress.add)
	progress.close()
	if len(damaged) > 0 {
		err = errors.Join(printEntries(cmd, output, "damaged and removed", damaged), err)
		return errors.Join(err, reported(exitVerify))
	}
	if err != nil {
		return err
	}
	return printEntries(cmd, output, "damaged", nil)
}

func printEntries(cmd *cobra.Command, output, what string, entries []cache.Entry) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	if output == "json" {
		return printJSON(cmd, append([]cache.Entry{}, entries...))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	total := int64(0)
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Digest, e.Form, bytesize.Format(e.Size), e.Used.Format(time.DateTime))
		total += e.Size
	}
	fmt.Fprintf(w, "%s: %s, %s\n", what, plural(len(entries), "pack"), bytesize.Format(total))
	return w.Flush()
}
