package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
)

// nodeFlags say where things are on the node; every command shares them.
type nodeFlags struct {
	socket, sets, status, crio string
	pools                      []string
	wait                       time.Duration
}

func (f *nodeFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	flags.DurationVar(&f.wait, "wait", wait, "how long to wait for CRI-O")
	flags.StringVar(&f.socket, "socket", cri.DefaultSocket, "CRI-O's socket")
	flags.StringVar(&f.sets, "sets", "/etc/pinbox/sets.d", "folder of PinnedImageSets")
	flags.StringVar(&f.crio, "crio-config", "/etc/crio", "folder of CRI-O's configuration")
	flags.StringVar(&f.status, "status", "/run/pinbox/status.json", "where the status is kept")
	flags.StringArrayVar(&f.pools, "pool", nil, "pool of this node; may be repeated (default: every set counts)")
}

func statusCommand() *cobra.Command {
	var f nodeFlags
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sets, images and conditions; exit code 0 only when all is pinned",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("--output %s: it is table or json", output)
			}
			status, err := observe(cmd.Context(), f)
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
	f.add(cmd.Flags(), 10*time.Second)
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
	for _, img := range s.Images {
		if img.State != runtime.Pinned {
			fmt.Fprintf(t, "%s: %s\n", img.State, img.Name)
		}
	}
	for _, e := range s.Errors {
		fmt.Fprintln(t, e)
	}
	if err := t.Flush(); err != nil || s.Healthy() {
		return err
	}
	return errUnhealthy
}
