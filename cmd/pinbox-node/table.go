package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// shown is a result that can be printed as text.
type shown interface {
	print(io.Writer) error
}

// show prints a result for people or for programs. It returns problem, if any.
func show(w io.Writer, output cli.Output, result shown, problem error) error {
	if output.Text() {
		return errors.Join(result.print(w), problem)
	}
	return errors.Join(output.Encode(w, result), problem)
}

// errUnhealthy is the error of a command whose result shows a problem of the node.
var errUnhealthy = fault.New(fault.Other, "the node is not in its desired state", "")

// problem is errUnhealthy if a status shows one.
func problem(s runtime.Status) error {
	if s.Healthy() {
		return nil
	}
	return errUnhealthy
}

// shownStatus is a status that can be printed.
type shownStatus runtime.Status

// print shows the sets, the conditions, every image that is not pinned, and the errors.
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
			fmt.Fprintln(w, set.LastFailedGenerationError) // a file that cannot be read as a set
		}
	}
	for _, set := range s.Sets {
		if set.StoreError != "" {
			fmt.Fprintf(w, "set %s: its images are pulled, since its store was not attached: %s\n", set.Name, set.StoreError)
		}
	}
	for _, line := range append(s.Cluster.Lines(), s.OperatorLines()...) {
		fmt.Fprintln(w, line)
	}
	for _, e := range s.Errors {
		fmt.Fprintln(w, e)
	}
	for _, text := range s.Warnings {
		cli.Word(w, cli.Yellow, "warning:")
		fmt.Fprintln(w, " "+text)
	}
	if len(s.Unpinned) > 0 {
		fmt.Fprintf(w, "%d images on the node are not in a set any more\n", len(s.Unpinned))
	}
	for _, img := range s.Wanted {
		by := ""
		if len(img.Pods) > 0 {
			by = ", by " + strings.Join(img.Pods, ", ")
		}
		fmt.Fprintf(w, "wanted and not here: %s, %s since %s%s\n", img.Name, cli.Plural(img.Times, "time"),
			img.Since.Format(time.RFC3339), by)
	}
	for _, img := range s.SetAside {
		fmt.Fprintf(w, "was set aside, since a store with layers below it is gone: %s\n", img.Names[0])
	}
	printStoreImages(w, s.StoreImages)
	printProgram(w, s.Program)
	for _, store := range s.Stores {
		if line := composingLine(store); line != "" {
			fmt.Fprintln(w, line)
		}
	}
	if s.Owner == runtime.MCO {
		fmt.Fprintln(w, "the Machine Config Operator owns the pins of this node; pinbox-node only reports")
	}
	_, err := fmt.Fprintln(w, s.Summary())
	return err
}

// printProgram names the program that runs, and the others only where they differ.
func printProgram(w io.Writer, p *runtime.ProgramStatus) {
	if p == nil {
		return
	}
	none := pinset.Program{}
	if p.Running != none {
		fmt.Fprintf(w, "pinbox-node %s runs\n", programName(p.Running))
	}
	if p.Current != none && p.Current.Digest != p.Running.Digest {
		follows := ""
		if p.Running != none {
			follows = ": pinbox-node.service runs it from its next start on"
		}
		fmt.Fprintf(w, "pinbox-node %s is that of the current release%s\n", programName(p.Current), follows)
	}
	if p.Own != none && p.Own.Digest != p.Current.Digest {
		fmt.Fprintf(w, "pinbox-node %s is that of the appliance's own store\n", programName(p.Own))
	}
}

// programName is the version of a program, or the start of its SHA-256.
func programName(p pinset.Program) string { return cmp.Or(p.Version, stores.Short(p.Digest)) }

// printStoreImages counts the images of read-only stores that no set has.
func printStoreImages(w io.Writer, images []runtime.StoreImage) {
	pinned, first := 0, ""
	for _, img := range slices.Backward(images) {
		if img.Pinned {
			pinned++
		} else {
			first = img.Names[0]
		}
	}
	if pinned > 0 {
		fmt.Fprintf(w, "%d images that no set has are pinned, as they are in read-only stores\n", pinned)
	}
	if n := len(images) - pinned; n > 0 {
		fmt.Fprintf(w, "%d images of read-only stores are not pinned, and the kubelet tries in vain to remove them, "+
			"such as %s\n", n, first)
	}
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
