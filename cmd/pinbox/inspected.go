package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func printInspected(out io.Writer, output cli.Output, names names, r inspect.Report) error {
	if !output.Text() {
		return output.Encode(out, r)
	}
	if r.ISO != nil {
		if err := printISO(out, *r.ISO); err != nil || !inspect.HasLock(*r.ISO) {
			return err
		}
		fmt.Fprintln(out)
	}
	if r.Against != nil {
		if err := listDifference(out, names, r.Against.Difference); err != nil {
			return err
		}
	}
	if err := printUsage(out, names, r); err != nil {
		return err
	}
	return printInventory(out, names, r.Inventory)
}

// printUsage prints what fills a store.
func printUsage(out io.Writer, names names, r inspect.Report) error {
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

// printInventory prints what it holds, and who has signed it.
func printInventory(out io.Writer, names names, v inspect.Inventory) error {
	w := cli.Table(out)
	fmt.Fprintln(w, "\nDIGEST\tNAME\tPLATFORM\tCREATED\tSIGNATURE")
	for _, img := range v.Images {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", names.digest(img.Pin), names.name(img.Name), img.Platform,
			cmp.Or(inspect.Day(img.Created), "-"), img.Signed())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = cli.Table(out)
	fmt.Fprintln(w, "\nDOCUMENT\tSIZE\tSHA-256\tSUMS\tSIGNATURE")
	for _, d := range v.Documents {
		sum := d.SHA256
		if !names.full {
			sum = sum[:min(len(sum), shortDigest)]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", names.file(printable(d.Name)), d.Extent(), cmp.Or(sum, "-"), cmp.Or(d.Sums, "-"),
			printable(d.Signed()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, why := range v.Unread {
		fmt.Fprintf(out, "not read: %s\n", printable(why))
	}
	return nil
}
