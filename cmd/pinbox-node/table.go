package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// shown is what a command shows.
type shown interface {
	print(io.Writer) error
}

// show prints a result for people or for programs, and passes on what is wrong
// with it.
func show(w io.Writer, output cli.Output, what shown, wrong error) error {
	if output.Text() {
		return errors.Join(what.print(w), wrong)
	}
	return errors.Join(output.Encode(w, what), wrong)
}

// showStatus shows a status, and says whether it is good.
func showStatus(w io.Writer, output cli.Output, s runtime.Status) error {
	var unhealthy error
	if !s.Healthy() {
		unhealthy = errUnhealthy
	}
	return show(w, output, shownStatus(s), unhealthy)
}

// shownStatus is a status that can be printed.
type shownStatus runtime.Status

// print shows the sets, and every image that is not as it should be.
func (shown shownStatus) print(w io.Writer) error {
	s := runtime.Status(shown)
	t := cli.Table(w)
	if len(s.Sets) > 0 {
		fmt.Fprintln(t, "SET\tIMAGES\tPINNED\tMISSING")
	}
	for _, set := range s.Sets {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\n", set.Name, set.Images, set.Pinned, set.Missing)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(w, "%s=%s (%s)\n", c.Type, c.Status, c.Reason)
	}
	for _, img := range s.Images {
		if img.State != runtime.Pinned {
			fmt.Fprintf(w, "%s: %s%s\n", img.State, img.Name, reason(img))
		}
	}
	for _, set := range s.Sets {
		if set.Images == 0 {
			fmt.Fprintln(w, set.LastFailedGenerationError) // a file that is no set
		}
	}
	for _, e := range s.Errors {
		fmt.Fprintln(w, e)
	}
	if len(s.Unpinned) > 0 {
		fmt.Fprintf(w, "%d images are on the node that no set has any more\n", len(s.Unpinned))
	}
	if s.Owner == runtime.MCO {
		fmt.Fprintln(w, "the Machine Config Operator owns the pins of this node; pinbox-node only reports")
	}
	_, err := fmt.Fprintln(w, s.Summary())
	return err
}

func reason(img runtime.ImageStatus) string {
	switch {
	case img.Error != "":
		return fmt.Sprintf(": %s: %s", img.ErrorClass, img.Error)
	case img.Bytes > 0:
		return ", " + bytesize.Format(img.Bytes)
	}
	return ""
}
