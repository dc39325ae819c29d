package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
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
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso", "json"),
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
