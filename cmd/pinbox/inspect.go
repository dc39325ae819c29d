package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/inventory"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/usage"
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
			r, err := inspect(cmd.Context(), args[0], old, key, hooks(progress))
			progress.Close()
			if err != nil {
				return err
			}
			if r.ISO != nil && !hasLock(*r.ISO) && (page.Wanted() || old != "") {
				return cli.Usagef("--html and --against are about a store, and %s has none", args[0])
			}
			if page.Wanted() {
				return page.Write(func(w io.Writer) error { return r.HTML(w, version, r.Inventory.Sections()...) })
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

// inspected is the result of inspect.
type inspected struct {
	usage.Report
	// Inventory is what it holds.
	Inventory inventory.Inventory `json:"inventory"`
	// ISO describes an ISO, which may have no store; nil for anything else.
	ISO *iso.Info `json:"iso,omitempty"`
	// Thin describes a thin delta, which has no layers; nil for anything else.
	Thin *artifact.Recipes `json:"thin,omitempty"`
}

// inspect reads all of it. With keys it checks the signatures first, since only they say who made the rest.
func inspect(ctx context.Context, name, old, key string, hooks progress.Hooks) (r inspected, err error) {
	checked := inventory.Checked{Keys: key}
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
		if checked.Good, err = verify.Signatures(ctx, from, keys, hooks); err != nil {
			return r, err
		}
	}
	if from.Image != nil {
		info, err := artifact.Inspect(from)
		if err != nil {
			return r, err
		}
		r.ISO = &info
		if !hasLock(info) {
			return r, nil
		}
	}
	if r.Report, err = usage.Read(ctx, from); err != nil {
		return r, err
	}
	if old != "" {
		older, err := release.Open(old, nil)
		if err != nil {
			return r, err
		}
		defer older.Close()
		before, err := usage.Read(ctx, older)
		if err != nil {
			return r, err
		}
		r.Report = r.Since(before)
	}
	if r.Inventory, err = inventory.Read(ctx, from, checked); err != nil {
		return r, err
	}
	r.Thin, err = artifact.ReadRecipes(from)
	return r, err
}

// hasLock reports whether an ISO is one that pinbox made.
func hasLock(info iso.Info) bool {
	return slices.ContainsFunc(info.Added, func(m iso.InfoMember) bool { return m.Name == artifact.ISOLock })
}
