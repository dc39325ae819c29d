package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

func diffCommand() *cobra.Command {
	var output cli.Output
	var names names
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two locks, folders or ISOs: images and layers changed, added and removed",
		Example: `  pinbox diff old/ out/
  pinbox diff old/pinbox.lock.json appliance.iso`,
		Long: `Compare two locks, folders or ISOs: images and layers changed, added and removed. An image is
changed if its component, its tag or its repository has another digest in NEW. For each image, diff
shows the layers that OLD lacks. If NEW is a thin delta, diff also shows how much of each layer is
the same, patched and literal, and which files take the most space.`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: cli.FileArgs(2, "iso", "json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var locks [2]pinset.Lock
			var recipes *artifact.Recipes // of the second one
			for i, name := range args {
				r, err := release.Open(name, nil)
				if err != nil {
					return err
				}
				defer r.Close()
				if locks[i], err = r.Lock(); err != nil {
					return err
				}
				if recipes, err = artifact.ReadRecipes(r); err != nil {
					return err
				}
			}
			return printDifference(cmd, output, names, difference{pinset.Compare(locks[0], locks[1]), recipes})
		},
	}
	output.Add(cmd.Flags())
	names.add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	return cmd
}

// difference is the result of diff.
type difference struct {
	pinset.Difference
	// Thin describes the second one, if it is a thin delta.
	Thin *artifact.Recipes `json:"thin,omitempty"`
}

func printDifference(cmd *cobra.Command, output cli.Output, names names, d difference) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), d)
	}
	w := cmd.OutOrStdout()
	if err := listDifference(w, names, d.Difference); err != nil || d.Thin == nil {
		return err
	}
	return printRecipes(w, names, *d.Thin)
}

// listDifference lists what differs, for people.
func listDifference(w io.Writer, names names, d pinset.Difference) error {
	table := cli.Table(w)
	for _, c := range d.Changed {
		fmt.Fprintf(table, "changed\t%s\t%s → %s\t(+%s, %d of %s)\n", names.name(c.Name), names.digest(c.Old),
			names.digest(c.New), bytesize.Format(c.NewLayers.Bytes), c.NewLayers.Count, cli.Plural(c.Layers, "layer"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, pin := range d.Removed {
		fmt.Fprintf(w, "- %s\n", names.pin(pin))
	}
	for _, pin := range d.Added {
		fmt.Fprintf(w, "+ %s\n", names.pin(pin))
	}
	for _, tag := range d.MovedTags {
		fmt.Fprintf(w, "%s is a tag of another image now\n", tag)
	}
	_, err := fmt.Fprintf(w, "images: %d changed, %d added, %d removed, %d unchanged\nlayers: %s added, %s removed, "+
		"%s unchanged\n", len(d.Changed), len(d.Added), len(d.Removed), len(d.Unchanged),
		volume(d.LayersAdded), volume(d.LayersRemoved), volume(d.LayersUnchanged))
	return err
}

// largestPrinted is how many of the largest files people read.
const largestPrinted = 10

func printRecipes(out io.Writer, names names, r artifact.Recipes) error {
	fmt.Fprintf(out, "thin delta of %s, for a store of %s:\n", bytesize.Format(r.Size), bytesize.Format(r.StoreSize))
	w := cli.Table(out)
	fmt.Fprintln(w, "IMAGE\tLAYER\tSAME\tPATCHED\tLITERAL\tHEADERS")
	for _, l := range r.Layers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", names.pin(l.Image), l.DiffID.Encoded()[:12], bytesize.Format(l.Same.Size),
			packed(l.Patched), packed(l.Literal), packed(l.Headers))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Largest) > 0 {
		fmt.Fprintln(out, "the most of it, about:")
	}
	w = cli.Table(out)
	for _, f := range r.Largest[:min(len(r.Largest), largestPrinted)] {
		fmt.Fprintf(w, "%s\t%s\t%s\n", bytesize.Format(f.Packed), printable(f.Path), names.pin(f.Image))
	}
	return w.Flush()
}

// packed says what files take of a thin delta.
func packed(c artifact.RecipeCount) string {
	if c.Size == 0 {
		return "-"
	}
	return bytesize.Format(c.Size) + " in " + bytesize.Format(c.Packed)
}

func volume(v pinset.BlobTotals) string {
	return fmt.Sprintf("%d (%s)", v.Count, bytesize.Format(v.Bytes))
}
