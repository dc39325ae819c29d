package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/usage"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func inspectCommand() *cobra.Command {
	var output cli.Output
	var names names
	var page cli.Page
	var old string
	cmd := &cobra.Command{
		Use:   "inspect {out/ | appliance.iso | delta.iso | pinbox.lock.json}",
		Short: "Show what fills a store: images, files, what images share, and what each would save",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso", "json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := usage.Read(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if old != "" {
				before, err := usage.Read(cmd.Context(), old)
				if err != nil {
					return err
				}
				report = report.Since(before)
			}
			recipes, err := artifact.ReadRecipes(args[0])
			if err != nil {
				return err
			}
			if page.Wanted() {
				return page.Write(func(w io.Writer) error { return report.HTML(w, version) })
			}
			return printUsage(cmd.OutOrStdout(), output, names, inspected{report, recipes})
		},
	}
	cmd.Flags().StringVar(&old, "against", "", "also compare with an older `PATH`: a folder, an ISO, a medium or a lock")
	cli.Files(cmd.Flags(), "against", "iso", "json")
	cli.Under("Inputs", cmd.Flags())
	output.Add(cmd.Flags())
	names.add(cmd.Flags())
	page.Add(cmd.Flags(), "`FILE` to write a page to, with a treemap, in place of the table")
	cli.Under("Output", cmd.Flags())
	return cmd
}

// inspected is the result of inspect.
type inspected struct {
	usage.Report
	// Thin describes a thin delta, which has no layers; nil for anything else.
	Thin *artifact.Recipes `json:"thin,omitempty"`
}

func printUsage(out io.Writer, output cli.Output, names names, r inspected) error {
	if !output.Text() {
		return output.Encode(out, r)
	}
	if r.Against != nil {
		if err := listDifference(out, names, r.Against.Difference); err != nil {
			return err
		}
	}
	if r.Thin != nil {
		return printRecipes(out, names, *r.Thin)
	}
	w := cli.Table(out)
	fmt.Fprintln(w, "IMAGE\tLAYERS\tIN A REGISTRY\tIN THE STORE\tSAVED WITHOUT IT")
	for _, img := range r.Images {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", names.pin(img.Pin), len(img.Layers), bytesize.Format(img.Blobs),
			bytesize.Format(img.Stored), bytesize.Format(img.Saving))
	}
	if err := w.Flush(); err != nil || r.Size == 0 {
		return err
	}
	fmt.Fprintf(out, "store of %s: %s of contents; %s of them are in files that no container sees\n",
		bytesize.Format(r.Size), bytesize.Format(r.Stored), bytesize.Format(r.HiddenStored))
	w = cli.Table(out)
	for _, f := range r.Largest[:min(len(r.Largest), largestPrinted)] {
		name, _, _ := strings.Cut(f.Image, "@")
		fmt.Fprintf(w, "%s\t%s\t%s\n", bytesize.Format(f.Stored), printable(f.Path), name)
	}
	return w.Flush()
}
