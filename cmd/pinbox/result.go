package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
)

func printWarnings(cmd *cobra.Command, warnings []string) {
	for _, w := range warnings {
		cli.Word(cmd.ErrOrStderr(), cli.Yellow, "warning:")
		fmt.Fprintf(cmd.ErrOrStderr(), " %s\n", w)
	}
}

func printBuilt(cmd *cobra.Command, output cli.Output, r builder.Result) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), r)
	}
	printWarnings(cmd, r.Warnings)
	image := ""
	next := "pinbox verify " + r.Out
	switch {
	case r.ISO != "" && r.Medium != "":
		image = fmt.Sprintf("  %s   boots with the configuration; the store is on a second medium with the label %s\n", r.ISO,
			r.Medium)
		next = "pinbox medium " + r.Out + " -o medium.iso"
	case r.ISO != "" && r.StoreURL != "":
		image = fmt.Sprintf("  %s   boots with the configuration; the node fetches the store from %s\n", r.ISO, r.StoreURL)
	case r.Installs != "":
		image = fmt.Sprintf("  %s   installs both to %s and overwrites it without a question\n", r.ISO, r.Installs)
	case r.ISO != "":
		image = fmt.Sprintf("  %s   boots with both\n", r.ISO)
	}
	does, private := "names the store", ""
	if r.Format.Mounted {
		does = "mounts the store"
	}
	if r.Private {
		private = "; only its owner can read it"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), `built %s for %s in %s: %s in a store of %s, out of %s of layers
  %s/%s  the images: the node expects it at %s
  %s/%s      first-boot configuration: %s, pins the images%s
  %s/%s       %s
%snext: %s, then %s
`,
		releaseName(r.ReleaseID), r.Platform, time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond),
		imagesOf(r.Totals), bytesize.Format(r.StoreSize), bytesize.Format(r.Totals.Bytes),
		r.Out, r.Store, r.NodeStore, r.Out, artifact.IgnitionFile, does, private, r.Out, artifact.ManifestsDir,
		aboutManifests(r), image, next, filepath.Join(r.Out, runbook.File))
	return err
}

// aboutManifests says what is to be done with the manifests.
func aboutManifests(r builder.Result) string {
	switch {
	case r.Apply == nil:
		return "PinnedImageSets for a cluster"
	case len(r.Apply) == 0:
		return "PinnedImageSets, not for the cluster: pinbox-node pins the images"
	}
	return "objects for the cluster that runs, in the order of " + runbook.Script
}

// locked is the result of `lock --output json`.
type locked struct {
	Path     string   `json:"path"`
	Images   int      `json:"images"`
	Warnings []string `json:"warnings,omitempty"`
}

func printLocked(cmd *cobra.Command, output cli.Output, l locked) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), l)
	}
	printWarnings(cmd, l.Warnings)
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s locks %s\n", l.Path, cli.Plural(l.Images, "image"))
	return err
}

func printPlan(
	cmd *cobra.Command, output cli.Output, names names, lock pinset.Lock, missing *builder.DeltaPlan, warnings []string,
) error {
	totals := lock.Totals()
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), struct {
			Totals   pinset.Totals      `json:"totals"`
			Delta    *builder.DeltaPlan `json:"delta,omitempty"` // with --from
			Warnings []string           `json:"warnings,omitempty"`
			Lock     pinset.Lock        `json:"lock"`
		}{totals, missing, warnings, lock})
	}
	printWarnings(cmd, warnings)
	out := cmd.OutOrStdout()
	w := cli.Table(out)
	fmt.Fprintln(w, "IMAGE\tNAME\tLAYERS\tSIZE")
	for _, img := range lock.Images {
		var bytes int64
		for _, l := range img.Layers {
			bytes += l.Size
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", names.pin(img.Pin), names.name(img.Name()), len(img.Layers),
			bytesize.Format(bytes))
	}
	for _, a := range lock.Artifacts {
		t := pinset.Lock{Artifacts: []pinset.LockedArtifact{a}}.Totals()
		fmt.Fprintf(w, "%s\t\t%s\t%s\n", names.pin(a.Pin), cli.Plural(len(a.Blobs), "blob"),
			bytesize.Format(t.ArtifactBytes))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s: %s of %s for %s: %s of %s to read; a registry on the node would hold %s of %s\n",
		releaseName(lock.ReleaseID), imagesOf(totals), cli.Plural(len(lock.Sets), "set"), lock.Platform,
		cli.Plural(totals.Layers, "different layer"), bytesize.Format(totals.Bytes), cli.Plural(totals.TotalLayers, "layer"),
		bytesize.Format(totals.TotalBytes))
	if missing != nil && err == nil {
		_, err = fmt.Fprintf(out, "a delta would have %s: %s to read; a thin one would be about %s, as estimated from other "+
			"rebuilt images\n", ofAll(missing.Missing, totals), bytesize.Format(missing.Bytes),
			bytesize.Format(missing.ThinEstimate))
	}
	return err
}

// imagesOf counts images, and OCI artifacts if there are any.
func imagesOf(t pinset.Totals) string {
	text := cli.Plural(t.Images, "image")
	if t.Artifacts > 0 {
		text += fmt.Sprintf(" and %s of %s", cli.Plural(t.Artifacts, "OCI artifact"), bytesize.Format(t.ArtifactBytes))
	}
	return text
}

// releaseName is the name of an appliance, with the number of the release if it has one.
func releaseName(r pinset.ReleaseID) string {
	if r.Number == 0 {
		return r.Name
	}
	return r.Title()
}

func ofAll(new builder.Missing, all pinset.Totals) string {
	return fmt.Sprintf("%d of %s", new.Layers, cli.Plural(all.Layers, "layer"))
}

// anyOf describes the bases of a delta: a node needs one of them.
func anyOf(bases int) string {
	if bases == 1 {
		return "the base"
	}
	return fmt.Sprintf("any one of the %d bases", bases)
}

func printDelta(cmd *cobra.Command, output cli.Output, r builder.Result) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), r)
	}
	printWarnings(cmd, r.Warnings)
	if r.Thin != nil {
		return printThinDelta(cmd, r)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(),
		`built a delta of %s for %s in %s: %s in a store of %s, with %s, out of %s of layers
  %s/%s  the layers that nodes with %s lack
  %s/%s       %s
next: pinbox medium %s -o delta.iso, then %s
`,
		releaseName(r.ReleaseID), r.Platform, time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond),
		imagesOf(r.Totals), bytesize.Format(r.StoreSize),
		ofAll(*r.New, r.Totals), bytesize.Format(r.New.Bytes), r.Out, r.Store, anyOf(len(r.Bases)), r.Out,
		artifact.ManifestsDir, aboutManifests(r), r.Out, filepath.Join(r.Out, runbook.File))
	return err
}

func printThinDelta(cmd *cobra.Command, r builder.Result) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(),
		`built a thin delta of %s for %s in %s: %s in %s, %s of the %s of a delta by layers, with %s
  %s/%s  what has changed in the layers that nodes with %s lack
  %s/%s  %s
next: pinbox verify %s --base, with the folder or ISO of %s, then %s
`,
		releaseName(r.ReleaseID), r.Platform, time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond),
		imagesOf(r.Totals), bytesize.Format(r.StoreSize), percent(r.StoreSize, r.Thin.StoreSize),
		bytesize.Format(r.Thin.StoreSize), ofAll(*r.New, r.Totals), r.Out, r.Store, anyOf(len(r.Bases)), r.Out,
		artifact.ManifestsDir, aboutManifests(r), r.Out, anyOf(len(r.Bases)), filepath.Join(r.Out, runbook.File))
	return err
}

// percent is a share of a whole.
func percent(part, whole int64) string {
	if whole == 0 {
		return "all"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

func printVerified(cmd *cobra.Command, output cli.Output, v verify.Result) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), v)
	}
	store := ", with no store in it"
	if v.StoreSize > 0 {
		store = " in a store of " + bytesize.Format(v.StoreSize)
	}
	if v.StoreDigest != "" {
		store += ", " + v.StoreDigest
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is intact: %s, %s%s\n",
		v.Dir, cli.Plural(v.Files, "file"), imagesOf(v.Totals), store)
	if d := v.Delta; d != nil && err == nil {
		err = printDeltaVerified(cmd.OutOrStdout(), *d)
	}
	if len(v.Signed) > 0 && err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "signed with the key: %s\n", strings.Join(v.Signed, ", "))
	}
	if v.Layers > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "read again: %s, each with the DiffID of its image\n", cli.Plural(v.Layers, "layer"))
	}
	for _, what := range v.Unchecked {
		fmt.Fprintf(cmd.OutOrStdout(), "not checked: %s\n", what)
	}
	return err
}

func printDeltaVerified(w io.Writer, d verify.Delta) error {
	found, checked := "not checked without --base", ""
	if len(d.Bases) > 0 {
		found = "all found in " + strings.Join(d.Bases, ", ")
	}
	if d.Thin != nil && d.Thin.Rebuilt > 0 {
		checked = fmt.Sprintf("; rebuilt %s, each with the DiffID of its image", cli.Plural(d.Thin.Rebuilt, "tar stream"))
	}
	if d.Mounted {
		checked += "; containers/storage mounted all stores and found no errors in their layers"
	}
	_, err := fmt.Fprintf(w, "it has %s and needs %s of a base: %s%s\n", cli.Plural(d.Layers, "layer"),
		cli.Plural(d.Needs, "layer"), found, checked)
	return err
}

// printFindings prints the findings of lint, and what of a cluster asks a registry. lock is the path of the lock, or
// "".
func printFindings(
	cmd *cobra.Command, output cli.Output, lock string, objects source.Objects, findings []lint.Finding,
	requests []lint.Request, missing []lint.Missing,
) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), struct {
			Findings []lint.Finding `json:"findings"`
			Count    int            `json:"count"`
			Uses     int            `json:"uses"` // of images, by containers and volumes
			Sets     int            `json:"sets"`
			Lock     string         `json:"lock,omitempty"`
			Requests []lint.Request `json:"requests,omitempty"`
			Missing  []lint.Missing `json:"missing,omitempty"` // in a cluster
		}{append([]lint.Finding{}, findings...), len(findings), len(objects.Uses), len(objects.Sets), lock, requests,
			missing})
	}
	w := cmd.OutOrStdout()
	for _, f := range findings {
		fmt.Fprintln(w, f)
	}
	for _, r := range requests {
		fmt.Fprintf(w, "%s, %s: %s: %s\n", r.During, r.Name, r.What, r.Cure)
	}
	if len(missing) > 0 {
		fmt.Fprintln(w, "not in the store, by namespace and owner:")
		table := cli.Table(w)
		for _, m := range missing {
			for _, image := range m.Images {
				fmt.Fprintf(table, "  %s\t%s\t%s\n", cmp.Or(m.Namespace, "-"), m.Owner, image)
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if lock == "" {
		fmt.Fprintln(w, "not checked, without --lock: whether the node has the images")
	}
	_, err := fmt.Fprintf(w, "%s in %s of images and %s\n", cli.Plural(len(findings), "finding"),
		cli.Plural(len(objects.Uses), "use"), cli.Plural(len(objects.Sets), "set"))
	return err
}

func printMedium(cmd *cobra.Command, output cli.Output, name string, info iso.Info) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), info)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, with the label %s\n", name, bytesize.Format(info.Size), info.Label)
	return err
}

func printISO(out io.Writer, info iso.Info) error {
	w := cli.Table(out)
	fmt.Fprintf(w, "label\t%s\nsize\t%s\n", info.Label, bytesize.Format(info.Size))
	if info.Ignition != nil {
		fmt.Fprintf(w, "architecture\t%s\n", cmp.Or(info.Architecture, "unknown"))
	}
	if info.Appliance != "" {
		fmt.Fprintf(w, "appliance\t%s\n", releaseName(pinset.ReleaseID{Name: info.Appliance, Number: info.Release}))
	}
	if info.Installs != "" {
		fmt.Fprintf(w, "installs to\t%s, and overwrites it without a question\n", info.Installs)
	}
	if info.StoreRootHash != "" {
		fmt.Fprintf(w, "root hash of the store\t%s\n", printable(info.StoreRootHash))
	}
	if info.BaseSHA256 != "" {
		fmt.Fprintf(w, "base\tsha256:%s\n", info.BaseSHA256)
	}
	if area := info.Ignition; area != nil {
		fmt.Fprintf(w, "Ignition area\t%d bytes at %d\n", area.Length, area.Offset)
		for _, m := range area.Members {
			printMember(w, "  "+printable(m.Name), m)
		}
	}
	if info.Kargs != nil {
		fmt.Fprintf(w, "kernel arguments\t%s\n", info.Kargs.Current)
		if info.Kargs.Default != info.Kargs.Current {
			fmt.Fprintf(w, "  by default\t%s\n", info.Kargs.Default)
		}
	}
	if info.Features != nil {
		fmt.Fprintf(w, "features\t%s\n", strings.Join(strings.Fields(string(info.Features)), " "))
	}
	for _, m := range info.Added {
		printMember(w, iso.Dir+"/"+m.Name, m)
	}
	return w.Flush()
}

func printMember(w io.Writer, name string, m iso.InfoMember) {
	fmt.Fprintf(w, "%s\t%s", name, bytesize.Format(m.Size))
	if m.SHA256 != "" {
		fmt.Fprintf(w, ", sha256:%s", m.SHA256)
	}
	fmt.Fprintln(w)
}

// printable quotes a name with characters that a terminal does not show.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
