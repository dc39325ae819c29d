package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// statusOfAll is a status that is printed with the stores.
type statusOfAll runtime.Status

func (shown statusOfAll) print(w io.Writer) error {
	return errors.Join(releaseTable(w, shown.Releases), shownStores(shown.Stores).table(w), shownStatus(shown).print(w))
}

// releaseTable prints the releases that the node keeps.
func releaseTable(w io.Writer, all []runtime.ReleaseStatus) error {
	if len(all) == 0 {
		return nil
	}
	t := cli.Table(w)
	fmt.Fprintln(t, "RELEASE\tNAME\tSTATE\tIMAGES\tATTACHED\tSTORE")
	for _, r := range all {
		number, attached, store := "-", "-", "the appliance's own"
		if r.Number > 0 {
			number = strconv.FormatInt(r.Number, 10)
		}
		if !r.Attached.IsZero() {
			attached = r.Attached.UTC().Format(time.RFC3339)
		}
		if r.Digest != "" {
			store = stores.Short(digest.Digest(r.Digest))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", number, cmp.Or(r.Name, "-"), r.State, r.Images, attached, store)
	}
	return t.Flush()
}

// shownStores are stores that can be printed.
type shownStores []runtime.StoreStatus

func (all shownStores) print(w io.Writer) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no store is attached")
		return err
	}
	err := all.table(w)
	for _, s := range all {
		if s.Error != "" && s.State != runtime.StoreRefused {
			fmt.Fprintf(w, "slot %s: %s\n", s.Slot, s.Error)
		}
		if line := composingLine(s); line != "" {
			fmt.Fprintln(w, line)
		}
	}
	return err
}

// table prints the stores, and of them what a status does not say.
func (all shownStores) table(w io.Writer) error {
	if len(all) == 0 {
		return nil
	}
	t := cli.Table(w)
	fmt.Fprintln(t, "SLOT\tDIGEST\tNAME\tIMAGES\tSIZE\tSTATE\tVERITY\tRELEASE")
	for _, s := range all {
		release := "-"
		if s.Number > 0 {
			release = strconv.FormatInt(s.Number, 10)
		}
		switch {
		case s.Current:
			release += ", current"
		case s.Previous:
			release += ", previous"
		}
		verity := "-"
		if s.Verity != nil {
			verity = string(s.Verity.State)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", cmp.Or(s.Slot, "-"),
			cmp.Or(stores.Short(digest.Digest(s.Digest)), "-"), cmp.Or(s.Name, "-"),
			s.Images, bytesize.Format(s.Bytes), s.State, verity, release)
	}
	err := t.Flush()
	for _, s := range all {
		if s.State == runtime.StoreRefused {
			fmt.Fprintf(w, "%s: %s\n", stores.Short(digest.Digest(s.Digest)), s.Error)
		}
		if s.Verity != nil && s.Verity.Reason != "" {
			fmt.Fprintf(w, "slot %s is not verified: %s\n", s.Slot, s.Verity.Reason)
		}
	}
	return err
}

// composingLine says how far a store is that is put together from a thin delta; "" for any other.
func composingLine(s runtime.StoreStatus) string {
	if s.State != runtime.StoreComposing || s.Progress == nil {
		return ""
	}
	line := fmt.Sprintf("slot %s: the store of the thin delta %s is being put together: %d %%", s.Slot,
		stores.Short(digest.Digest(s.Digest)), 100*s.Progress.Bytes/max(s.Progress.OfBytes, 1))
	if !s.Progress.ETA.IsZero() {
		line += fmt.Sprintf(", done in about %s", max(time.Until(s.Progress.ETA).Round(time.Second), time.Second))
	}
	return line
}

// attached is the result of `attach --output json` and `rollback --output json`.
type attached struct {
	Digest string `json:"digest"`
	Slot   string `json:"slot"`
	// Found means that the store was attached before.
	Found bool `json:"found"`
	// Moved are the tags that earlier releases gave to other images.
	Moved  []string       `json:"moved,omitempty"`
	Status runtime.Status `json:"status"`

	text string
}

// print prints what was done with the store, and then the status of the node.
func (a attached) print(w io.Writer) error {
	fmt.Fprintln(w, a.text)
	return shownStatus(a.Status).print(w)
}

func describeAttached(a stores.Attached, s runtime.Status) attached {
	text := fmt.Sprintf("the store %s is attached at slot %s: %d images", stores.Short(a.Store.ID), a.Store.Slot,
		a.Store.Images)
	switch {
	case a.Appliance:
		text = fmt.Sprintf("the store %s is the appliance's own, at slot %s: nothing was copied",
			stores.Short(a.Store.ID), a.Store.Slot)
	case a.Found && a.Store.Slot == "":
		text = fmt.Sprintf("the store %s was attached before and then detached: nothing was changed",
			stores.Short(a.Store.ID))
	case a.Repaired:
		text = fmt.Sprintf("the store %s was attached before, at slot %s, and was damaged or moved: it was read again",
			stores.Short(a.Store.ID), a.Store.Slot)
	case !a.Found && a.Store.Thin != "":
		text = fmt.Sprintf("the store %s was put together from the thin delta %s and is attached at slot %s: %d images",
			stores.Short(a.Store.ID), stores.Short(a.Store.Thin), a.Store.Slot, a.Store.Images)
	case a.Found:
		text = fmt.Sprintf("the store %s was attached before, at slot %s: nothing was copied", stores.Short(a.Store.ID),
			a.Store.Slot)
	}
	if len(a.Moved) > 0 {
		text += fmt.Sprintf("; it moves %s to other images", strings.Join(a.Moved, ", "))
	}
	if a.Program != nil {
		text += fmt.Sprintf("; from its next start on, pinbox-node.service runs the pinbox-node %s",
			programName(*a.Program))
	}
	if a.Unordered {
		text += "; neither its release nor the one before has a number, so it may be the older one: `pinbox-node rollback` " +
			"returns to that"
	}
	if a.Unverified {
		text += fmt.Sprintf("; its signature was not checked, since %s has no key", a.Keys)
	}
	return attached{
		Digest: a.Store.ID.String(), Slot: a.Store.Slot, Found: a.Found, Moved: a.Moved, Status: s, text: text,
	}
}

func showRelease(cmd *cobra.Command, output cli.Output, r stores.Release, s runtime.Status, err error) error {
	text := "the appliance's own release is current, with the sets from before the first attach"
	if r.ID != "" {
		text = fmt.Sprintf("the release of the store %s is current", stores.Short(r.ID))
	}
	return showWithStatus(cmd, output, attached{Digest: r.ID.String(), Found: true, Status: s, text: text}, err)
}

// plannedRelease is the result of `attach --dry-run --output json` and `rollback --dry-run --output json`.
type plannedRelease struct {
	DryRun bool `json:"dryRun"`
	// Digest is that of the store whose release would be current; of an attach, that of the store.
	Digest string `json:"digest"`
	*plannedStore
	// Pinned are images of the release that the current sets lack, and Unpinned those that only the current sets have.
	Pinned   []string `json:"pinned"`
	Unpinned []string `json:"unpinned"`
	text     string
}

// plannedStore is the store of an attach. Bytes is what it would take on the disk.
type plannedStore struct {
	Slot  string   `json:"slot"`
	Found bool     `json:"found"`
	Bytes int64    `json:"bytes"`
	Moved []string `json:"moved,omitempty"`
}

func (p plannedRelease) print(w io.Writer) error {
	fmt.Fprintln(w, p.text)
	for _, name := range p.Pinned {
		fmt.Fprintln(w, "+", name)
	}
	for _, name := range p.Unpinned {
		fmt.Fprintln(w, "-", name)
	}
	return nil
}

func describePlan(p node.Plan) plannedRelease {
	shown := plannedRelease{DryRun: true, Digest: p.Release.ID.String(), Pinned: []string{}, Unpinned: []string{}}
	for _, img := range p.Pinned {
		shown.Pinned = append(shown.Pinned, img.String())
	}
	for _, img := range p.Unpinned {
		shown.Unpinned = append(shown.Unpinned, img.String())
	}
	shown.text = fmt.Sprintf("%s would be current: %s more in its sets, %s less",
		cmp.Or(p.Release.Title(), "the appliance's own release"), cli.Plural(len(p.Pinned), "image"),
		cli.Plural(len(p.Unpinned), "image"))
	return shown
}

// showPlannedAttach shows what a dry run of an attach has found.
func showPlannedAttach(w io.Writer, output cli.Output, n *node.Node, a stores.Attached) error {
	shown := plannedRelease{Pinned: []string{}, Unpinned: []string{}, text: "the current release stays, with its sets"}
	if a.Next != nil {
		p, err := n.PlanRelease(*a.Next)
		if err != nil {
			return err
		}
		shown = describePlan(p)
	}
	id := cmp.Or(a.Store.ID, a.Store.Thin)
	shown.DryRun, shown.Digest = true, id.String()
	shown.plannedStore = &plannedStore{Slot: a.Store.Slot, Found: a.Found, Bytes: a.Most, Moved: a.Moved}
	about := fmt.Sprintf("the store %s would be attached at slot %s: %s, %s of the disk", stores.Short(id), a.Store.Slot,
		cli.Plural(a.Store.Images, "image"), bytesize.Format(a.Most))
	switch {
	case a.Repaired:
		about = fmt.Sprintf("the store %s, at slot %s, is damaged or moved: it would be read again, %s of the disk",
			stores.Short(id), a.Store.Slot, bytesize.Format(a.Most))
	case a.Appliance:
		about = fmt.Sprintf("the store %s is the appliance's own, at slot %s: nothing would be copied", stores.Short(id),
			a.Store.Slot)
	case a.Found:
		about = fmt.Sprintf("the store %s is attached, at slot %s: nothing would be copied", stores.Short(id), a.Store.Slot)
	case a.Store.Thin != "":
		about = fmt.Sprintf("a store would be put together from the thin delta %s at slot %s: %s, %s of the disk",
			stores.Short(id), a.Store.Slot, cli.Plural(a.Store.Images, "image"), bytesize.Format(a.Most))
	}
	shown.text = about + "; nothing would be freed\n" + shown.text
	if len(a.Moved) > 0 {
		shown.text += fmt.Sprintf("; it moves %s to other images", strings.Join(a.Moved, ", "))
	}
	if a.Unverified {
		shown.text += fmt.Sprintf("; its signature was not checked, since %s has no key", a.Keys)
	}
	return show(w, output, shown, nil)
}

// showWithStatus returns errUnhealthy if the status shows a problem. That the Machine Config Operator has not pinned
// the images yet is none: it does once somebody applies their sets, which comes after the store.
func showWithStatus(cmd *cobra.Command, output cli.Output, a attached, err error) error {
	if err != nil {
		return fmt.Errorf("%s, but: %w", a.text, err)
	}
	wrong := problem(a.Status)
	if a.Status.Owner == runtime.MCO && a.Status.Pending() && !a.Status.Degraded() {
		wrong = nil
	}
	return show(cmd.OutOrStdout(), output, a, wrong)
}

// detached is the result of `detach --output json`.
type detached struct {
	DryRun   bool            `json:"dryRun,omitempty"`
	Detached []detachedStore `json:"detached"`
	// InUse has the stores that were not detached, by their titles, with what uses them.
	InUse map[string]string `json:"inUse,omitempty"`
}

type detachedStore struct {
	Digest string `json:"digest"`
	Slot   string `json:"slot"`
	Bytes  int64  `json:"bytes"`

	short string
}

func (d detached) print(w io.Writer) error {
	text := "the store %s is detached; %s were freed\n"
	if d.DryRun {
		text = "the store %s would be detached; %s would be freed\n"
	}
	for _, s := range d.Detached {
		fmt.Fprintf(w, text, s.short, bytesize.Format(s.Bytes))
	}
	for _, title := range slices.Sorted(maps.Keys(d.InUse)) {
		fmt.Fprintf(w, "the store %s is not detached: %v\n", title, d.InUse[title])
	}
	if len(d.Detached)+len(d.InUse) == 0 {
		_, err := fmt.Fprintln(w, "no store is attached")
		return err
	}
	return nil
}

// showDetached also shows what was detached before an error.
func showDetached(
	cmd *cobra.Command, output cli.Output, dry bool, removed []stores.Store, inUse map[string]error, err error,
) error {
	d := detached{DryRun: dry, Detached: []detachedStore{}, InUse: map[string]string{}}
	for _, s := range removed {
		d.Detached = append(d.Detached, detachedStore{s.ID.String(), s.Slot, s.Size, stores.Short(s.ID)})
	}
	for title, err := range inUse {
		d.InUse[title] = err.Error()
	}
	if err != nil && len(removed)+len(inUse) == 0 {
		return err
	}
	return show(cmd.OutOrStdout(), output, d, err)
}

// compacted is the result of `compact --output json`.
type compacted struct {
	// DryRun means that Bytes are the most that the store would have, and that it has no digest yet.
	DryRun   bool            `json:"dryRun,omitempty"`
	Digest   digest.Digest   `json:"digest"`
	Bytes    int64           `json:"bytes"`
	Replaces []digest.Digest `json:"replaces"`
}

func (c compacted) print(w io.Writer) error {
	if c.DryRun {
		_, err := fmt.Fprintf(w, "%d stores would be compacted to one of %s at most, and replaced when CRI-O starts next\n",
			len(c.Replaces), bytesize.Format(c.Bytes))
		return err
	}
	_, err := fmt.Fprintf(w, "compacted %d stores to %s, of %s; it replaces them when CRI-O starts next\n",
		len(c.Replaces), stores.Short(c.Digest), bytesize.Format(c.Bytes))
	return err
}
