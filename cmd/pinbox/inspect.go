package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

func inspectCommand() *cobra.Command {
	var output cli.Output
	var names names
	var page cli.Page
	var old, key string
	cmd := &cobra.Command{
		Use:   "inspect {out/ | appliance.iso | delta.iso | pinbox.lock.json}",
		Short: "Show what a store holds and what fills it: images, documents, signatures, files",
		Example: `  pinbox inspect out/
  pinbox inspect appliance.iso --html inspect.html`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso", "json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := cli.NewProgress(cmd, output)
			r, err := readInspected(cmd.Context(), args[0], old, key, hooks(progress))
			progress.Close()
			if err != nil {
				return err
			}
			if r.ISO != nil && !inspect.HasLock(*r.ISO) && (page.Wanted() || old != "") {
				return cli.Usagef("--html and --against are about a store, and %s has none", args[0])
			}
			if output.Text() {
				printWarnings(cmd, r.Warnings)
			}
			if page.Wanted() {
				return page.Write(func(w io.Writer) error { return r.HTML(w, version) })
			}
			return printInspected(cmd.OutOrStdout(), output, names, r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&old, "against", "", "also compare with an older `PATH`: a folder, an ISO, a medium or a lock")
	cli.Files(flags, "against", "iso", "json")
	flags.StringVar(&key, "key", "",
		"`FILE` of public keys in PEM, one of which must have signed the sums")
	cli.Files(flags, "key", "pub", "pem")
	cli.Under("Inputs", flags)
	output.Add(flags)
	names.add(flags)
	page.Add(flags, "`FILE` to write a page to, with a treemap, in place of the tables")
	cli.Under("Output", flags)
	cli.AddProgress(cmd)
	return cmd
}

// readInspected reads all of it. With keys it checks the signatures first, since only they say who made the rest.
func readInspected(ctx context.Context, name, old, key string, hooks progress.Hooks) (r inspect.Report, err error) {
	o := inspect.Options{Keys: key}
	var keys signature.Keys
	if key != "" {
		if keys, err = signature.ReadKeys(key); err != nil {
			return r, err
		}
	}
	from, err := release.Open(name, keys)
	if err != nil {
		return r, err
	}
	defer from.Close()
	if key != "" {
		if o.Good, err = verify.Signatures(ctx, from, keys, hooks); err != nil {
			return r, err
		}
	}
	if old != "" {
		if o.Against, err = release.Open(old, nil); err != nil {
			return r, err
		}
		defer o.Against.Close()
	}
	return inspect.Read(ctx, from, o)
}

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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", names.file(printable(d.Name)), d.Extent(), cmp.Or(sum, "-"),
			cmp.Or(d.Sums, "-"), printable(d.Signed()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, why := range v.Unread {
		fmt.Fprintf(out, "not read: %s\n", printable(why))
	}
	return nil
}
