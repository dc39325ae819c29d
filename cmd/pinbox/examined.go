package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/fault"
)

// examined is an element of `doctor --output json`.
type examined struct {
	Thing string `json:"thing"`
	// State is ok, warning or fails.
	State string `json:"state"`
	Says  string `json:"says"`
	Hint  string `json:"hint,omitempty"`
}

// stateColours are those of the states on a terminal.
var stateColours = map[string]cli.Colour{"ok": cli.Green, "warning": cli.Yellow, "fails": cli.Red}

// printExamined prints what was found. The exit code is that of the first thing that fails.
func printExamined(cmd *cobra.Command, output cli.Output, findings []builder.Finding) error {
	program := cli.Program{Root: cmd.Root(), System: systemErrors}
	all := make([]examined, len(findings))
	code := fault.OK
	for i, f := range findings {
		all[i] = examined{Thing: f.Thing, State: "ok", Says: f.Says}
		switch {
		case f.Err != nil:
			why := program.Find(f.Err)
			all[i].State, all[i].Says, all[i].Hint = "fails", why.Error, why.Hint
			if code == fault.OK {
				code = why.Code
			}
		case f.Warning:
			all[i].State = "warning"
		}
	}
	if err := writeExamined(cmd, output, all); err != nil || code == fault.OK {
		return err
	}
	return cli.Reported(code)
}

func writeExamined(cmd *cobra.Command, output cli.Output, all []examined) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), all)
	}
	w := cmd.OutOrStdout()
	for _, e := range all {
		says := e.Says
		if e.Hint != "" {
			says += "\nhint: " + e.Hint
		}
		cli.Word(w, stateColours[e.State], fmt.Sprintf("%-8s", e.State))
		if _, err := fmt.Fprintf(w, " %s: %s\n", e.Thing, strings.ReplaceAll(says, "\n", "\n         ")); err != nil {
			return err
		}
	}
	return nil
}
