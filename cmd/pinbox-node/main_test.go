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
	where := " --wait 200ms --socket " + socket + " --status " + filepath.Join(dir, "status.json") + " --sets " + dir
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"status" + where:            {1, "CRI-O does not answer on " + socket},
		"plan" + where:              {1, "CRI-O does not answer on " + socket},
		"firstboot" + where:         {1, "CRI-O does not answer on " + socket},
		"status --output xml":       {2, "want text, json or yaml"},
		"status --fast":             {2, "unknown flag"},
		"reboot":                    {2, "unknown command"},
		"firstboot --reserve ten":   {2, "16Gi, 10% or 16Gi,10%"},
		"firstboot --owner nobody":  {2, "it is pinbox, mco or auto"},
		"firstboot --parallel many": {2, "invalid argument"},
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
