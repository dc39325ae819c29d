package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/sites"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func deltaCommand() *cobra.Command {
	var f buildFlags
	var site siteFlags
	var from []string
	var thin bool
	cmd := &cobra.Command{
		Use:   "delta --from old/ {-c appliance.yaml | --set sets.yaml} -o delta/",
		Short: "Build a store of the layers that nodes lack, to mount in addition to theirs",
		Example: `  pinbox delta --from old/ -c appliance.yaml -o delta/
  pinbox delta --from old.iso --from older/pinbox.lock.json --set worker.yaml -o delta/
  pinbox delta --from old/ -c appliance.yaml --node-binary pinbox-node-arm64 -o delta/
  pinbox delta --from old/ -c appliance.yaml -o delta/ --thin
  pinbox delta --from reports/ -c appliance.yaml -o deltas/ --max-deltas 3`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := f.in.options()
			if err != nil {
				return err
			}
			opts.From = from
			opts.Thin = thin
			if err := f.complete(cmd, &opts); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, f.in.output)
			opts.Hooks = hooks(progress)
			show, err := site.build(cmd.Context(), opts)
			progress.Close()
			if err != nil {
				return err
			}
			return show(cmd, f.in.output)
		},
	}
	addFrom(cmd.Flags(), &from)
	cmd.Flags().Lookup("from").Usage += "; or a folder of reports of pinbox-node, to make the fewest deltas that serve all"
	site.add(cmd.Flags())
	cmd.Flags().BoolVar(&thin, "thin", false, "write what has changed in the files of the layers, from which nodes "+
		"make the store; --from then needs stores, and not locks")
	cli.Under("Inputs", cmd.Flags())
	f.addInputs(cmd)
	f.addOutputs(cmd)
	return cli.Common(cmd, "from", "thin", "config", "set", "image", "image-list", "manifests", "release",
		"oc-mirror", "oci", "platform", "authfile", "sign-key", "out", "output")
}

// siteFlags are the flags of a delta for the sites of reports.
type siteFlags struct {
	key string
	max int
}

func (f *siteFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "key", "", "`PATH` of public keys in PEM, one of which must have "+
		"signed each file of reports: a file, or a folder with a file NODE.pub for each node")
	cli.Files(flags, "key", "pub", "pem")
	flags.IntVar(&f.max, "max-deltas", 0, "`NUMBER` of deltas to make at most for the sites of reports; sites then get "+
		"more layers than they lack (default: no limit)")
	cli.Under("Inputs", flags)
}

// build makes a delta, or those for the sites of reports. It returns what prints the result.
func (f siteFlags) build(ctx context.Context, o builder.Options) (func(*cobra.Command, cli.Output) error, error) {
	all, err := f.sites(o.From)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		made, err := builder.Delta(ctx, o)
		return func(cmd *cobra.Command, output cli.Output) error { return printDelta(cmd, output, made) }, err
	}
	made, err := builder.DeltasFor(ctx, o, all, f.max)
	return func(cmd *cobra.Command, output cli.Output) error { return printSites(cmd, output, made) }, err
}

// sites reads the sites of reports; none unless --from names reports.
func (f siteFlags) sites(from []string) (all []sites.Site, err error) {
	reports := slices.DeleteFunc(slices.Clone(from), func(path string) bool { return !fleet.IsReports(path) })
	switch {
	case len(reports) == 0 && (f.key != "" || f.max != 0):
		return nil, cli.Usagef("--key and --max-deltas go with --from and a folder of reports")
	case len(reports) == 0:
		return nil, nil
	case len(reports) < len(from):
		return nil, cli.Usagef("--from names reports, and what is none: name either")
	case f.max < 0:
		return nil, cli.Usagef("--max-deltas %d: it is a number of deltas", f.max)
	}
	var keys fleet.Keys
	if f.key != "" {
		if keys, err = fleet.ReadKeys(f.key); err != nil {
			return nil, err
		}
	}
	objects, broken, err := fleet.Read(reports, keys)
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(broken)) { // its site would get nothing
		return nil, fmt.Errorf("%s: %w", file, broken[file])
	}
	newest := fleet.Newest(objects, time.Now())
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		site := sites.Site{Name: name, Stores: newest[name].Content}
		if r := newest[name].Status; r != nil {
			for _, img := range r.Wanted {
				site.Wanted = append(site.Wanted, img.Name)
			}
		}
		all = append(all, site)
	}
	if len(all) == 0 {
		return nil, fleet.ErrNoNodes
	}
	return all, nil
}

// printSites prints what was built for which site. It returns sites.ErrUnserved if a site gets nothing that it needs.
func printSites(cmd *cobra.Command, output cli.Output, r builder.SitesResult) (err error) {
	if output.Text() {
		printWarnings(cmd, r.Warnings)
		err = printSitesText(cmd.OutOrStdout(), r)
	} else {
		err = output.Encode(cmd.OutOrStdout(), r)
	}
	if err == nil && len(r.Unserved) > 0 {
		err = fmt.Errorf("%w: %d of %d", sites.ErrUnserved, len(r.Unserved), r.Count())
	}
	return err
}

func printSitesText(w io.Writer, r builder.SitesResult) error {
	t := cli.Table(w)
	fmt.Fprintln(t, "SITE\tDELTA\tSIZE")
	for _, d := range r.Deltas {
		for _, site := range d.Sites {
			fmt.Fprintf(t, "%s\t%s\t%s\n", site, d.Out, bytesize.Format(d.StoreSize))
		}
	}
	for _, site := range r.Done {
		fmt.Fprintf(t, "%s\thas the release\t\n", site)
	}
	for _, site := range r.Unserved {
		fmt.Fprintf(t, "%s\tnone: %s\t\n", site.Site, printable(site.Reason))
	}
	if err := t.Flush(); err != nil || len(r.Deltas) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, `built %s of %s for %s in %s
next: pinbox medium %s -o delta.iso, and so on; each folder has its RUNBOOK.md
`, cli.Plural(len(r.Deltas), "delta"), releaseName(r.ReleaseID), cli.Plural(r.Served(), "site"), r.Out, r.Deltas[0].Out)
	return err
}
