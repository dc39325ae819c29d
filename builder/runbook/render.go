package runbook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrMedium says that an ISO has no runbook.
var ErrMedium = fault.New(fault.Input, "an ISO has no runbook", "name the folder of the build")

// Names of the files in the folder of a build.
const (
	File   = "RUNBOOK.md"
	Script = "runbook.sh"
)

// Markdown is the text for a person.
func Markdown(b Built) []byte {
	var t strings.Builder
	kind := "the appliance"
	if b.Delta {
		kind = "a delta of"
	}
	fmt.Fprintf(&t, "# Runbook of %s %s\n%d images in a store of %s. Run the commands in this folder. "+
		"`runbook.sh` does the steps marked with ►, in this order: run it again if it fails or is killed. "+
		"Times are estimates of the bytes at the rate that is named.\n",
		kind, b.Title(), b.Images, bytesize.Format(b.Size))
	if b.OpenShift != nil && !b.Delta {
		t.WriteString("\nDo not apply what is in `manifests/` before its step: the operator would pull, and nodes reboot.\n")
	}
	for n, s := range Steps(b) {
		mark := ""
		if s.Script {
			mark = "► "
		}
		fmt.Fprintf(&t, "\n## %d. %s%s\n", n+1, mark, s.Title)
		if len(s.Commands) > 0 {
			fmt.Fprintf(&t, "```sh\n%s\n```\n", strings.Join(s.Commands, "\n"))
		}
		for _, line := range []struct{ about, text string }{
			{"Wait", s.Wait}, {"Check", s.Check}, {"If it fails", s.IfItFails},
		} {
			if line.text != "" {
				fmt.Fprintf(&t, "- %s: %s\n", line.about, line.text)
			}
		}
		if s.Bytes > 0 {
			fmt.Fprintf(&t, "- Bytes: %s\n", took(s.Bytes, s.By))
		}
	}
	return []byte(t.String())
}

// Shell is the script.
func Shell(b Built) []byte {
	var t strings.Builder
	fmt.Fprintf(&t, "#!/bin/sh\n# The steps of %s that a machine can do. It may be killed, and run again.\n"+
		"# shellcheck disable=SC2029 # the arguments are for the nodes\nset -eu\ncd -- \"$(dirname -- \"$0\")\"\n", File)
	steps := Steps(b)
	if !slices.ContainsFunc(steps, func(s Step) bool { return s.Script }) {
		fmt.Fprintf(&t, "\necho 'no step of %s is for a script'\n", File)
	}
	for n, s := range steps {
		if !s.Script {
			continue
		}
		text := strings.Join(s.Commands, "\n")
		if s.Done != "" {
			text = fmt.Sprintf("if ! %s; then\n%s\nfi", s.Done, text)
		}
		fmt.Fprintf(&t, "\necho %s\n%s\n", word(fmt.Sprintf("%d. %s", n+1, strings.ReplaceAll(s.Title, "`", ""))), text)
	}
	return []byte(t.String())
}

// word is one of a shell.
func word(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
