package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestNodeWithoutCRIO(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "crio.sock")
	where := " --wait 200ms --set socket=" + socket + " --set status=" + filepath.Join(dir, "status.json") + " --set setsDir=" + dir
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"status" + where:                {1, "CRI-O does not answer on " + socket},
		"plan" + where:                  {1, "CRI-O does not answer on " + socket},
		"firstboot" + where:             {1, "CRI-O does not answer on " + socket},
		"status --output xml":           {2, "want text, json or yaml"},
		"status --fast":                 {2, "unknown flag"},
		"reboot":                        {2, "unknown command"},
		"firstboot --set reserve=ten":   {2, "16Gi, 10% or 16Gi,10%"},
		"firstboot --set owner=nobody":  {2, "it must be auto, pinbox or mco"},
		"firstboot --set parallel=many": {2, "invalid argument"},
	} {
		if strings.HasPrefix(args, "firstboot --") {
			args += where
		}
		t.Run(args, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(t.Context(), strings.Fields(args), &out, &errOut); code != want.code ||
				!strings.Contains(out.String()+errOut.String(), want.text) {
				t.Errorf("got exit code %d and\n%s%s\nwant %d and %q", code, out.String(), errOut.String(), want.code, want.text)
			}
		})
	}
}

// The name of a medium or of a file on it, which its maker chose, has no effect on a terminal.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "\x1b[2J\u009b\u202e")
	for _, args := range [][]string{
		{"attach", dir, "--set=stateDir=" + t.TempDir()}, {"status", "--wait", "1ms", "--set=socket=" + dir},
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, &out, &errOut); code == 0 || strings.ContainsAny(errOut.String(), "\x1b\u009b\u202e") ||
			!strings.Contains(errOut.String(), `\u001b[2J\u009b\u202e`) {
			t.Errorf("%q: got exit code %d and %q, want the name with escapes", args[0], code, errOut.String())
		}
	}
}
