package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/runtime"
)

func statusCommand() *cobra.Command {
	var f passFlags
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sets, images and conditions; exit code 0 only when all is pinned",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			status, err := r.Look(cmd.Context())
			if err != nil {
				return err
			}
			if output == "table" {
				return printStatus(cmd.OutOrStdout(), status)
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			if err := enc.Encode(status); err != nil || status.Healthy() {
				return err
			}
			return errUnhealthy
		},
	}
	f.nodeFlags.add(cmd.Flags(), 10*time.Second)
	cmd.Flags().StringVar(&output, "output", "table", "table, or json for programs")
	return cmd
}

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
