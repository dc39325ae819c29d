package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// shownStores are stores that can be printed.
type shownStores []runtime.StoreStatus

func showStores(w io.Writer, output cli.Output, all []runtime.StoreStatus) error {
	var away error
	if slices.ContainsFunc(all, func(s runtime.StoreStatus) bool { return s.State != runtime.StoreMounted }) {
		away = errUnhealthy
	}
	return show(w, output, append(shownStores{}, all...), away)
}

func (all shownStores) print(w io.Writer) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no store is attached")
		return err
	}
	t := cli.Table(w)
	fmt.Fprintln(t, "SLOT\tDIGEST\tNAME\tIMAGES\tSIZE\tSTATE\tRELEASE")
	for _, s := range all {
		release := ""
		switch {
		case s.Current:
			release = "current"
		case s.Previous:
			release = "previous"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Slot, stores.Short(digest.Digest(s.Digest)), cmp.Or(s.Name, "-"),
			s.Images, bytesize.Format(s.Bytes), s.State, release)
	}
	err := t.Flush()
	for _, s := range all {
		if s.Error != "" {
			fmt.Fprintf(w, "slot %s: %s\n", s.Slot, s.Error)
		}
	}
	return err
}

// attached is what `attach --output json` gives.
type attached struct {
	Digest string `json:"digest"`
	Slot   string `json:"slot"`
	// Found says that it was there already.
	Found  bool           `json:"found"`
	Status runtime.Status `json:"status"`

	text string
}

// print tells of the store, and then how the node is.
func (a attached) print(w io.Writer) error {
	fmt.Fprintln(w, a.text)
	return shownStatus(a.Status).print(w)
}

// showAttached also says whether the node is as its sets want it.
func showAttached(cmd *cobra.Command, output cli.Output, a stores.Attached, s runtime.Status, err error) error {
	text := fmt.Sprintf("the store %s is attached at slot %s: %d images", stores.Short(a.Store.ID), a.Store.Slot,
		a.Store.Images)
	switch {
	case a.Appliance:
		text = fmt.Sprintf("the store %s is the appliance's own: nothing was changed", stores.Short(a.Store.ID))
	case a.Found && a.Store.Slot == "":
		text = fmt.Sprintf("the store %s was attached once, and is not any more: nothing was changed",
			stores.Short(a.Store.ID))
	case a.Found:
		text = fmt.Sprintf("the store %s was attached before, at slot %s", stores.Short(a.Store.ID), a.Store.Slot)
	case a.Unverified:
		text += "; its signature was not checked, as there is no key in /etc/pinbox/keys.d"
	}
	return showTurned(cmd, output, attached{Digest: a.Store.ID.String(), Slot: a.Store.Slot, Found: a.Found, Status: s,
		text: text}, err)
}

func showRelease(cmd *cobra.Command, output cli.Output, r stores.Release, s runtime.Status, err error) error {
	text := "the appliance's own release is current, with the sets from before the first attach"
	if r.ID != "" {
		text = fmt.Sprintf("the release of the store %s is current", stores.Short(r.ID))
	}
	return showTurned(cmd, output, attached{Digest: r.ID.String(), Found: true, Status: s, text: text}, err)
}

func showTurned(cmd *cobra.Command, output cli.Output, a attached, err error) error {
	if err != nil {
		return fmt.Errorf("%s, but: %w", a.text, err)
	}
	var unhealthy error
	if !a.Status.Healthy() {
		unhealthy = errUnhealthy
	}
	return show(cmd.OutOrStdout(), output, a, unhealthy)
}

// detached is what `detach --output json` gives.
type detached struct {
	Detached []detachedStore `json:"detached"`
	// Kept says why stores stay, by what a user calls them.
	Kept map[string]string `json:"kept,omitempty"`
}

type detachedStore struct {
	Digest string `json:"digest"`
	Slot   string `json:"slot"`
	Bytes  int64  `json:"bytes"`

	short string
}

func (d detached) print(w io.Writer) error {
	for _, s := range d.Detached {
		fmt.Fprintf(w, "the store %s is detached; %s were freed\n", s.short, bytesize.Format(s.Bytes))
	}
	for _, title := range slices.Sorted(maps.Keys(d.Kept)) {
		fmt.Fprintf(w, "%s stays: %v\n", title, d.Kept[title])
	}
	if len(d.Detached)+len(d.Kept) == 0 {
		_, err := fmt.Fprintln(w, "no store is attached")
		return err
	}
	return nil
}

// showDetached also says what has gone before an error.
func showDetached(cmd *cobra.Command, output cli.Output, gone []stores.Store, kept map[string]error, err error) error {
	d := detached{Detached: []detachedStore{}, Kept: map[string]string{}}
	for _, s := range gone {
		d.Detached = append(d.Detached, detachedStore{s.ID.String(), s.Slot, s.Size, stores.Short(s.ID)})
	}
	for title, why := range kept {
		d.Kept[title] = why.Error()
	}
	if err != nil && len(gone)+len(kept) == 0 {
		return err
	}
	return show(cmd.OutOrStdout(), output, d, err)
}

// compacted is what `compact --output json` gives.
type compacted struct {
	Digest   digest.Digest   `json:"digest"`
	Bytes    int64           `json:"bytes"`
	Replaces []digest.Digest `json:"replaces"`
}

func (c compacted) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "compacted %d stores to %s, of %s; it replaces them when CRI-O starts next\n",
		len(c.Replaces), stores.Short(c.Digest), bytesize.Format(c.Bytes))
	return err
}
