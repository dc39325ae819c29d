package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pinbox/pinbox/runtime"
)

// printStatus shows the sets, and every image that is not as it should be.
func printStatus(w io.Writer, s runtime.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SET\tIMAGES\tPINNED\tMISSING")
	for _, set := range s.Sets {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\n", set.Name, set.Images, set.Pinned, set.Missing)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(w, "%s=%s (%s): %s\n", c.Type, c.Status, c.Reason, c.Message)
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
	if p := s.Progress; p != nil && !p.ETA.IsZero() {
		fmt.Fprintf(w, "%s, done at about %s\n", s.Line(), p.ETA.Local().Format(time.TimeOnly))
	} else {
		fmt.Fprintln(w, s.Line())
	}
	if s.Healthy() {
		return nil
	}
	return errUnhealthy
}

func reason(img runtime.ImageStatus) string {
	switch {
	case img.Error != "":
		return fmt.Sprintf(": %s: %s", img.ErrorClass, img.Error)
	case img.Bytes > 0:
		return ", " + runtime.Size(img.Bytes)
	}
	return ""
}
